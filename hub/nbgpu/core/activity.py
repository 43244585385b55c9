"""What a running server's signals have told of work, each kept as a track of a few numbers. Pure.

A signal that was not told for a while says nothing of that while: it then begins anew, and never counts as quiet for
the time in between. Instants are whole seconds since 1970 in UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from nbgpu.core.periods import Period


class Signal(StrEnum):
    """What can tell of work."""

    PERSON = "person"  # somebody ran code, typed in a terminal, saved a file
    KERNEL = "kernel"  # a kernel is at work on a cell
    TERMINAL = "terminal"  # a program runs in the foreground of a terminal
    CPU = "cpu"
    NETWORK = "network"
    GPU = "gpu"  # utilization
    GPU_MEMORY = "gpu_memory"  # its change: memory that is held is no work


CLAIMS = frozenset({Signal.KERNEL, Signal.TERMINAL})  # say that something is at work, and not that anything is done
REPORTED = CLAIMS | {Signal.PERSON}  # known from within the server only

Tracks = Mapping[Signal, "Track"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """From where on a reading is work."""

    cpu_percent: float = 5.0  # of one core
    network_rate: int = 50 * 2**10  # bytes a second, both ways together
    gpu_percent: float = 2.0
    gpu_memory_change: int = 64 * 2**20  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """What one signal has told of a session."""

    known_from: int  # since when it was told without a gap
    known_until: int
    active_at: int | None = None  # when it last told of work
    active_from: int | None = None  # since when it does so without a pause; of the last time, where it does not now
    worked: int = 0  # seconds in which it told of work
    value: float | None = None  # its last reading
    reference: int | None = None  # GPU memory: what a change is measured against, in bytes

    @property
    def is_active(self) -> bool:
        """Whether the last that it told was work."""
        return self.active_at is not None and self.active_at >= self.known_until

    @property
    def quiet_since(self) -> int:
        """Since when it has told of nothing."""
        return max(self.known_from, self.active_at or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Averages over a span, of a server and all its devices together; None is "not reported"."""

    span: Period
    cpu_percent: float | None = None  # of one core
    network_rate: float | None = None  # bytes a second
    gpu_percent: float | None = None  # the largest of the devices; None where one does not report
    gpu_memory: int | None = None  # bytes, of all devices; None where one does not report


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a server tells of itself."""

    kernels: int = 0
    kernels_busy: int = 0
    terminals: int = 0
    terminal_jobs: int = 0
    person_ago: float | None = None  # seconds since somebody last did something; None: never
    sockets: int = 0  # told, and never counted as activity


def merge(one: Report, later: Report) -> Report:
    """Return what two reports tell together: whatever either saw at work."""
    acts = [each.person_ago for each in (one, later) if each.person_ago is not None]
    return Report(
        kernels=later.kernels,
        kernels_busy=max(one.kernels_busy, later.kernels_busy),
        terminals=later.terminals,
        terminal_jobs=max(one.terminal_jobs, later.terminal_jobs),
        person_ago=min(acts, default=None),
        sockets=later.sockets,
    )


def note_reading(tracks: Tracks, reading: Reading, limits: Thresholds, gap: int) -> dict[Signal, Track]:
    """Return the tracks with a reading; what is `gap` seconds after what was known before begins anew."""
    found = dict(tracks)
    for signal, value, threshold in (
        (Signal.CPU, reading.cpu_percent, limits.cpu_percent),
        (Signal.NETWORK, reading.network_rate, limits.network_rate),
        (Signal.GPU, reading.gpu_percent, limits.gpu_percent),
    ):
        if value is not None:
            found[signal] = _note(found.get(signal), reading.span, gap, active=value >= threshold, value=value)
    if reading.gpu_memory is not None:
        found[Signal.GPU_MEMORY] = _note_memory(found.get(Signal.GPU_MEMORY), reading, limits, gap)
    return found


def note_report(tracks: Tracks, report: Report, at: int, gap: int) -> dict[Signal, Track]:
    """Return the tracks with a server's report, which holds from the one before, up to `at`."""
    found, moment = dict(tracks), Period(at - 1, at)
    for signal, count in ((Signal.KERNEL, report.kernels_busy), (Signal.TERMINAL, report.terminal_jobs)):
        found[signal] = _note(found.get(signal), moment, gap, active=count > 0, value=count)
    person = _note(found.get(Signal.PERSON), moment, gap, active=False)  # told by an age instead
    if report.person_ago is not None:
        acted_at = at - max(0, int(report.person_ago))
        person = replace(person, active_at=max(acted_at, person.active_at or 0))
    found[Signal.PERSON] = person
    return found


def _note(track: Track | None, span: Period, gap: int, *, active: bool, value: float | None = None) -> Track:
    if track is None:
        track = Track(known_from=span.start, known_until=span.start)
    if track.known_until - gap < span.end <= track.known_until:
        return track  # told before
    # A clock that was set back would have all that comes told before.
    begun_anew = span.start - track.known_until > gap or span.end <= track.known_until
    if begun_anew and track.active_at is not None and track.active_at > span.end:
        track = replace(track, active_at=span.start)
    since = span.start if begun_anew else track.known_until
    goes_on = track.is_active and not begun_anew
    return replace(
        track,
        known_from=span.start if begun_anew else track.known_from,
        known_until=span.end,
        active_at=span.end if active else track.active_at,
        active_from=since if active and not goes_on else track.active_from,
        worked=track.worked + (span.end - since if active else 0),
        value=value,
    )


def _note_memory(track: Track | None, reading: Reading, limits: Thresholds, gap: int) -> Track:
    memory = reading.gpu_memory or 0
    reference = track.reference if track is not None and track.reference is not None else memory
    change = abs(memory - reference)
    active = change >= limits.gpu_memory_change
    noted = _note(track, reading.span, gap, active=active, value=float(change))
    return replace(noted, reference=memory if active else reference)
