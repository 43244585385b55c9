"""A session's idleness in words, for the command's tables and explanations."""

from datetime import timedelta
from typing import TYPE_CHECKING

from nbgpu.cli.lists import show_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from nbgpu.core.idle_view import IdleView
    from nbgpu.wiring.adapters import Adapters


def explain_session(site: "Adapters", view: "IdleView") -> "Iterator[str]":
    """Yield sentences: why a session runs, or ran."""
    from nbgpu.core.idle_words import describe_finding, describe_forecast

    zone = site.settings.policies.zone
    yield f"{view.server}, on “{view.flavor}”, since {show_time(view.started_at)} (session {view.session_id})"
    if view.ended_at is not None:
        yield f"It ended at {show_time(view.ended_at)}. {_explain_end(site, view)}"
    elif view.stop is not None:
        yield f"It will be stopped: {show_stop(view)}."
    if view.policy is None:
        yield "No rule holds for it: it is not stopped for being idle."
    elif view.verdict is None:
        yield "It is not judged yet: look again in a minute."
    else:
        yield f"{show_state(view)}:".capitalize()
        yield from (f"  {describe_finding(each, zone)}" for each in view.verdict.findings)
        if view.ended_at is None:
            yield str(describe_forecast(view.verdict, zone))
    if view.ended_at is None:
        yield from _explain_extension(view)


def _explain_extension(view: "IdleView") -> "Iterator[str]":
    from nbgpu.core.units import render_span

    until = to_end(view.extension.until)
    if until is not None:
        yield f"It was extended: not before {show_time(until)}."
    if view.policy is not None:
        yield f"Its person may extend it by {render_span(timedelta(seconds=view.extendable))} more."


def _explain_end(site: "Adapters", view: "IdleView") -> str:
    from nbgpu.core.session_status import describe_last
    from nbgpu.spawner.endings import explain_end

    why = describe_last(view, site.settings.policies.zone)
    if why is not None:
        return str(why)
    lease = site.leases.find(view.session_id)
    return str(explain_end((lease.release_reason if lease is not None else None) or "").why)


def show_state(view: "IdleView") -> str:
    """Return what is found of a session."""
    from nbgpu.core.culling import State

    if view.policy is None:
        return "no rule"
    states = {State.ACTIVE: "in use", State.QUIET: "idle"}
    return states.get(view.verdict.state, "not known") if view.verdict is not None else "not judged yet"


def show_since(view: "IdleView") -> str:
    """Return since when it is idle; empty while it is not."""
    from nbgpu.core.culling import State

    verdict = view.verdict
    if verdict is None or verdict.forecast is None or verdict.state is not State.QUIET:
        return ""
    return _show(verdict.forecast.since)


def show_stop(view: "IdleView") -> str:
    """Return when it stops, and why."""
    from nbgpu.core.stops import why_it_stops

    if view.stop is not None:
        return f"{_show(view.stop.at)}, {why_it_stops(view.stop.cause)}"
    if view.verdict is not None and view.verdict.forecast is not None:
        return f"{_show(view.verdict.forecast.at)} if nothing changes"
    return f"{show_time(view.until)}, its limit" if view.until is not None else ""


def _show(seconds: int) -> str:
    from nbgpu.core.periods import to_instant

    return show_time(to_instant(seconds))


def to_end(seconds: int) -> "datetime | None":
    """Return the end of an extension; None where there is none."""
    from nbgpu.core.periods import to_instant

    return to_instant(seconds) if seconds else None
