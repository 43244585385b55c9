"""A verdict on a server in words: why it still runs, and what happens if nothing changes. Pure."""

from datetime import timedelta, tzinfo

from nbgpu.core.activity import Signal
from nbgpu.core.authorize import Cause
from nbgpu.core.culling import Finding, Forecast, State, Verdict
from nbgpu.core.periods import to_instant
from nbgpu.core.texts import Text, mark
from nbgpu.core.units import render_size, render_span

_NAMES = {
    Signal.PERSON: Text("whether somebody uses it"),
    Signal.KERNEL: Text("whether a cell runs"),
    Signal.TERMINAL: Text("whether a program runs in a terminal"),
    Signal.CPU: Text("its CPU"),
    Signal.NETWORK: Text("its network"),
    Signal.GPU: Text("the utilization of its GPU"),
    Signal.GPU_MEMORY: Text("its GPU memory"),
}
_ACTIVE = {
    Signal.KERNEL: Text("A cell is running."),
    Signal.TERMINAL: Text("A program is running in a terminal."),
    Signal.GPU_MEMORY: Text("What is held of the GPU's memory changes."),
}
_QUIET = {
    Signal.KERNEL: Text("No cell is running."),
    Signal.TERMINAL: Text("No program is running in a terminal."),
    Signal.GPU_MEMORY: Text("What is held of the GPU's memory does not change."),
}
_ACTIVE_VALUE = {
    Signal.CPU: mark("The CPU is at work: %(value)s."),
    Signal.NETWORK: mark("Data comes or goes: %(value)s."),
    Signal.GPU: mark("The GPU is at work: %(value)s."),
}
_QUIET_VALUE = {
    Signal.CPU: mark("The CPU does next to nothing: %(value)s; from %(threshold)s on it would count."),
    Signal.NETWORK: mark("Next to no data comes or goes: %(value)s; from %(threshold)s on it would count."),
    Signal.GPU: mark("The GPU does next to nothing: %(value)s; from %(threshold)s on it would count."),
}


def describe_finding(finding: Finding, zone: tzinfo) -> Text:
    """Return what one signal says, as a sentence."""
    signal = finding.signal
    if finding.state is State.UNKNOWN:
        return Text("Not reported at the moment: %(signal)s. It is not stopped for being idle.", signal=_NAMES[signal])
    if finding.state is State.IGNORED:
        return Text("Not counted here: %(signal)s.", signal=_NAMES[signal])
    if signal is Signal.PERSON:
        return _describe_person(finding, zone)
    is_active = finding.state is State.ACTIVE
    plain = (_ACTIVE if is_active else _QUIET).get(signal)
    if plain is not None:
        return plain
    is_below = finding.value is None or finding.threshold is None or finding.value < finding.threshold
    if is_active and is_below:  # it was at work a moment ago
        return Text("At work until %(at)s: %(signal)s.", at=_clock(finding.since, zone), signal=_NAMES[signal])
    template = (_ACTIVE_VALUE if is_active else _QUIET_VALUE)[signal]
    return Text(template, value=_amount(signal, finding.value or 0), threshold=_amount(signal, finding.threshold or 0))


def describe_forecast(verdict: Verdict, zone: tzinfo) -> Text:
    """Return what happens if nothing changes."""
    found = verdict.forecast
    if found is None:
        return Text("It is not stopped for being idle as long as that is not known.")
    params = {
        "at": _day_and_clock(found.at, zone),
        "since": _day_and_clock(found.since, zone),
        "limit": render_span(timedelta(seconds=found.limit)),
        "flavor": found.move_to or "",
    }
    return Text(_template(found), **params)


def describe_end(cause: Cause, since: int, limit: int, zone: tzinfo) -> Text:
    """Return why a server was stopped for being idle."""
    template = (
        mark("It was stopped: its GPU was idle since %(since)s, and may be so for %(limit)s.")
        if cause is Cause.GPU_IDLE
        else mark("It was stopped: it was idle since %(since)s, and may be so for %(limit)s.")
    )
    return Text(template, since=_day_and_clock(since, zone), limit=render_span(timedelta(seconds=limit)))


def _template(found: Forecast) -> str:
    if found.move_to is not None:
        return mark(
            "If nothing changes, it goes on without a GPU, as “%(flavor)s”, at %(at)s: its GPU may be idle for "
            "%(limit)s, and nothing ran on it since %(since)s."
        )
    if found.cause is Cause.GPU_IDLE:
        return mark(
            "If nothing changes, it is stopped at %(at)s: its GPU may be idle for %(limit)s, and nothing ran on it "
            "since %(since)s."
        )
    return mark(
        "If nothing changes, it is stopped at %(at)s: it may be idle for %(limit)s, and nothing was seen of it since "
        "%(since)s."
    )


def _describe_person(finding: Finding, zone: tzinfo) -> Text:
    if finding.since is None:
        return Text("Nobody has run code, typed in a terminal or saved a file since it is watched.")
    if finding.state is State.ACTIVE:
        return Text("Somebody used it at %(at)s.", at=_day_and_clock(finding.since, zone))
    return Text("Nobody has used it since %(at)s.", at=_day_and_clock(finding.since, zone))


def _amount(signal: Signal, value: float) -> str:
    if signal is Signal.NETWORK:
        return f"{render_size(int(value))}/s"
    return f"{value:.0f} %" if value >= 10 else f"{value:.1f} %".replace(".0 %", " %")


def _clock(seconds: int | None, zone: tzinfo) -> str:
    return to_instant(seconds or 0).astimezone(zone).strftime("%H:%M %Z")


def _day_and_clock(seconds: int, zone: tzinfo) -> str:
    return to_instant(seconds).astimezone(zone).strftime("%Y-%m-%d %H:%M %Z")
