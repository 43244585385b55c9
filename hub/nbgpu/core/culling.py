"""Whether a running server is idle, since when, and when it is to be stopped for that. Pure.

No signal decides alone, and none that is missing counts as quiet. A *claim* (a kernel at a cell, a program in the
foreground of a terminal) keeps a server for long, but not for ever: a loop that sleeps moves nothing. Everything else
is evidence: somebody's act, CPU, network, GPU, change of GPU memory.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum

from nbgpu.core.activity import CLAIMS, Signal, Tracks
from nbgpu.core.authorize import Cause
from nbgpu.core.idle_policy import IdlePolicy
from nbgpu.core.stops import Stop

_GPU = (Signal.GPU, Signal.GPU_MEMORY)
_LEAST_NOTICE = 60  # seconds, where a policy does not warn
_CLICK = 300  # seconds
_LONGEST_EXTENSION = 366 * 86400  # seconds at one time
_COUNTS_FOR_GPU = frozenset(Signal) - {Signal.PERSON}  # not that somebody edits text


class State(StrEnum):
    """What a signal, or a server, is."""

    ACTIVE = "active"
    QUIET = "quiet"  # of a server: idle
    UNKNOWN = "unknown"  # not told; a server with such a signal that it needs is not stopped
    IGNORED = "ignored"  # not told, and not needed; or the policy has switched it off


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one signal says now."""

    signal: Signal
    state: State
    since: int | None = None  # when it last told of work; None: not since it is known
    value: float | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What happens if nothing changes."""

    cause: Cause  # IDLE or GPU_IDLE
    since: int  # from when on nothing was seen
    limit: int  # seconds that this may last, with grace
    at: int  # when it is stopped: extensions and quiet hours are counted
    move_to: str | None = None  # flavor that it goes on with


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is found of a server at one instant."""

    state: State
    findings: tuple[Finding, ...]
    forecast: Forecast | None  # None where it is not known, or no limit holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What a person has asked for."""

    until: int = 0  # not stopped for being idle before; 0: never asked
    used: int = 0  # seconds that were given so far
    asked_at: int = 0  # the last time


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a server is judged by, beside its tracks."""

    now: int
    stale: int  # seconds after which a signal that was not told is unknown
    has_gpu: bool  # it holds a device that works
    zone: tzinfo  # of quiet hours
    extension: Extension = Extension()


def judge(tracks: Tracks, policy: IdlePolicy, look: Look) -> Verdict:
    """Return the verdict on a server."""
    findings = tuple(_find(signal, tracks, policy, look) for signal in Signal)
    missing = any(each.state is State.UNKNOWN for each in findings)
    active = any(each.state is State.ACTIVE for each in findings)
    forecast = None if missing else _forecast(tracks, policy, look, findings)
    state = State.ACTIVE if active else State.UNKNOWN if missing else State.QUIET
    return Verdict(state=state, findings=findings, forecast=forecast)


def plan_idle_stop(
    verdict: Verdict, policy: IdlePolicy, decided: Stop | None, *, now: int, zone: tzinfo
) -> Stop | None:
    """Return the stop that is to be told and done; None while there is none.

    It is decided by the first warning, but not before half of the limit has gone: nobody at work is warned. Whoever
    could not be warned in time, because nobody looked or a rule changed, has the time of the last warning at least,
    and the quiet hours (of `zone`). Work that is seen meanwhile calls it off.
    """
    found = verdict.forecast
    if found is None or found.at - now > min(max(policy.warn, default=_LEAST_NOTICE), found.limit // 2):
        return None
    if decided is not None and decided.cause is found.cause:  # one who was not told before keeps the time given then
        return Stop(max(decided.at, found.at), found.cause)
    at = max(found.at, now + min(min(policy.warn, default=_LEAST_NOTICE), found.limit // 2))
    return Stop(policy.leave_quiet_hours(at, zone), found.cause)


def left_to_extend(verdict: Verdict, policy: IdlePolicy, extension: Extension) -> int:
    """Return the seconds that may still be asked for. Work that was seen after an extension begins a new count."""
    return max(0, policy.longest_extension - _used(verdict, extension))


def extend(verdict: Verdict, extension: Extension, decided: Stop | None, *, seconds: int, now: int) -> Extension:
    """Return the extension with `seconds` more, counted from when it would be stopped without."""
    forecast = verdict.forecast.at if verdict.forecast is not None else now
    begin = max(now, forecast, extension.until, decided.at if decided is not None else 0)
    seconds = min(seconds, _LONGEST_EXTENSION)
    return Extension(until=begin + seconds, used=_used(verdict, extension) + seconds, asked_at=now)


def _used(verdict: Verdict, extension: Extension) -> int:
    """What opening the page makes the server do is no work: a while after the click it would be."""
    since = verdict.forecast.since if verdict.forecast is not None else 0
    return 0 if since > extension.asked_at + _CLICK else extension.used


def _find(signal: Signal, tracks: Tracks, policy: IdlePolicy, look: Look) -> Finding:
    track = tracks.get(signal)
    if signal not in policy.signals or (signal in _GPU and not look.has_gpu):
        return Finding(signal=signal, state=State.IGNORED)
    threshold = _threshold(signal, policy)
    if track is None or look.now - track.known_until > look.stale:
        needed = _is_needed(signal, tracks, policy)
        state = State.UNKNOWN if needed else State.IGNORED
        return Finding(signal=signal, state=state, since=track.active_at if track else None, threshold=threshold)
    active = track.is_active or (track.active_at is not None and look.now - track.active_at <= look.stale)
    return Finding(
        signal=signal,
        state=State.ACTIVE if active else State.QUIET,
        since=track.active_at,
        value=track.value,
        threshold=threshold,
    )


def _is_needed(signal: Signal, tracks: Tracks, policy: IdlePolicy) -> bool:
    """Whether nothing can be said without a signal that is not told now."""
    if signal is Signal.NETWORK:
        return False  # not every server has a network of its own that is counted
    if signal in _GPU and signal not in tracks:  # a MIG device reports no utilization, others no memory: one will do
        other = _GPU[1 - _GPU.index(signal)]
        return other not in tracks or other not in policy.signals
    return True


def _threshold(signal: Signal, policy: IdlePolicy) -> float | None:
    limits = policy.thresholds
    return {
        Signal.CPU: limits.cpu_percent,
        Signal.NETWORK: float(limits.network_rate),
        Signal.GPU: limits.gpu_percent,
        Signal.GPU_MEMORY: float(limits.gpu_memory_change),
    }.get(signal)


def _forecast(tracks: Tracks, policy: IdlePolicy, look: Look, findings: Iterable[Finding]) -> Forecast | None:
    counted = {each.signal for each in findings if each.state is not State.IGNORED}
    known = {signal: tracks[signal] for signal in counted}
    grace = min(policy.longest_grace, _worked(tracks) * policy.grace_percent // 100)
    grace -= grace % 60  # "idle for 1 h 2 s" says nothing to anybody
    found = []
    if policy.idle_limit is not None and known:
        since, is_claimed = _since(known)
        found.append((since, _limit(policy.idle_limit + grace, policy, is_claimed=is_claimed), Cause.IDLE))
    for_gpu = {signal: track for signal, track in known.items() if signal in _COUNTS_FOR_GPU}
    if policy.gpu_idle_limit is not None and not for_gpu.keys().isdisjoint(_GPU):
        since, is_claimed = _since(for_gpu)
        found.append((since, _limit(policy.gpu_idle_limit + grace, policy, is_claimed=is_claimed), Cause.GPU_IDLE))
    if not found:
        return None
    since, limit, cause = min(found, key=lambda each: each[0] + each[1])
    at = policy.leave_quiet_hours(max(since + limit, look.extension.until), look.zone)
    if at <= look.now:  # what is overdue is not done in quiet hours either
        at = max(at, _leave_now(policy, look))
    move_to = policy.move_to if cause is Cause.GPU_IDLE else None
    return Forecast(cause=cause, since=since, limit=limit, at=at, move_to=move_to)


def _leave_now(policy: IdlePolicy, look: Look) -> int:
    """Return when the quiet hours end that it is now; 0 where there are none now."""
    end = policy.leave_quiet_hours(look.now, look.zone)
    return end if end > look.now else 0


def _since(known: Tracks) -> tuple[int, bool]:
    """Return from when on nothing was seen, and whether something claims to be at work all the same."""
    claims = [track for signal, track in known.items() if signal in CLAIMS]
    evidence = [track.quiet_since for signal, track in known.items() if signal not in CLAIMS]
    begins = [claim.active_from or claim.known_from for claim in claims if claim.is_active]
    if begins:
        return max([*evidence, *begins]), True
    return max([*evidence, *(claim.quiet_since for claim in claims)]), False


def _limit(limit: int, policy: IdlePolicy, *, is_claimed: bool) -> int:
    return max(limit, policy.busy_limit) if is_claimed else limit


def _worked(tracks: Tracks) -> int:
    return max((track.worked for signal, track in tracks.items() if signal in _COUNTS_FOR_GPU), default=0)
