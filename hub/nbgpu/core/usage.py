"""What sessions made of what they hold: sums over minutes and hours, of samples. Pure.

Charges follow leased time and never this. A span without a sample is a gap: it is in no sum, `sampled_ms` included.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

SERVER = ""  # in a device UUID's place: the server itself, with its CPU, RAM and network
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, order=True)
class Metered:
    """What is measured: one device of a session, or its server."""

    session_id: str
    device_uuid: str = SERVER


@dataclass(frozen=True, slots=True)
class Holding:
    """A device that an active session holds in part or whole; `SERVER` for the server itself."""

    metered: Metered
    active_at: datetime
    shared: bool = False  # others may hold other slots of the device


@dataclass(frozen=True, slots=True)
class ServerReading:
    """What one server had used and held when it was looked at."""

    cpu_ns: int | None = None  # of all cores together, counted up from some begin
    ram: int | None = None  # bytes, without what the kernel can drop at once
    network: int | None = None  # bytes received and sent, without loopback, counted up from some begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Sums over `sampled_ms`. None is "not reported by any sample", which is never 0."""

    sampled_ms: int = 0
    busy_ms: int | None = None  # GPU-milliseconds: utilization times time
    gpu_memory_peak: int | None = None  # bytes
    gpu_memory_byte_ms: int | None = None
    cpu_ms: int | None = None  # of all cores together
    ram_byte_ms: int | None = None
    network_bytes: int | None = None  # received and sent

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sums over both spans."""
        return Usage(
            sampled_ms=self.sampled_ms + other.sampled_ms,
            busy_ms=_sum(self.busy_ms, other.busy_ms),
            gpu_memory_peak=_max(self.gpu_memory_peak, other.gpu_memory_peak),
            gpu_memory_byte_ms=_sum(self.gpu_memory_byte_ms, other.gpu_memory_byte_ms),
            cpu_ms=_sum(self.cpu_ms, other.cpu_ms),
            ram_byte_ms=_sum(self.ram_byte_ms, other.ram_byte_ms),
            network_bytes=_sum(self.network_bytes, other.network_bytes),
        )

    @property
    def gpu_memory_mean(self) -> int | None:
        """Bytes that were in use on average while samples were taken."""
        return self.gpu_memory_byte_ms // self.sampled_ms if self.gpu_memory_byte_ms and self.sampled_ms else None


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """The sums of one span (a minute or an hour) of one metered thing, as one run of the sampler has them."""

    metered: Metered
    starts_at: datetime
    usage: Usage
    run: str = ""


def measure_device(ms: int, *, utilization: int | None, memory_used: int | None) -> Usage:
    """Return the usage of a device over `ms`, through which a sample's percent and bytes are taken to have held."""
    return Usage(
        sampled_ms=ms,
        busy_ms=None if utilization is None else (ms * min(utilization, 100) + 50) // 100,
        gpu_memory_peak=memory_used,
        gpu_memory_byte_ms=None if memory_used is None else ms * memory_used,
    )


def measure_server(ms: int, *, cpu_ms: int | None, ram: int | None, network: int | None = None) -> Usage:
    """Return the usage of a server over `ms`, in which it spent `cpu_ms`, held `ram` bytes, moved `network` bytes."""
    ram_byte_ms = None if ram is None else ms * ram
    return Usage(sampled_ms=ms, cpu_ms=cpu_ms, ram_byte_ms=ram_byte_ms, network_bytes=network)


def floor(instant: datetime, span: timedelta) -> datetime:
    """Return the start of the MINUTE or HOUR that an instant (in UTC) lies in."""
    minute = instant.replace(second=0, microsecond=0)
    return minute if span == MINUTE else minute.replace(minute=0)


def split(usage: Usage, until: datetime) -> Iterator[tuple[datetime, Usage]]:
    """Yield (start of minute, its part) of a usage that was measured up to an instant. Parts sum to the whole."""
    start = until - usage.sampled_ms * _MS
    minute = floor(start, MINUTE)
    if until <= minute + MINUTE:
        yield minute, usage
        return
    done = 0
    while done < usage.sampled_ms:
        upto = min(usage.sampled_ms, -((start - minute - MINUTE) // _MS))
        if upto > done:
            yield minute, _cut(usage, done, upto)
        done, minute = max(done, upto), minute + MINUTE


def elapsed_of(holding: Holding, now: datetime, elapsed_ms: int, *, known: bool) -> int:
    """Return how much of the last `elapsed_ms` a holding had its device: less where it began meanwhile."""
    if known:
        return elapsed_ms
    return max(0, min(elapsed_ms, (now - holding.active_at) // _MS))


def _cut(usage: Usage, begin: int, end: int) -> Usage:
    """The part from `begin` to `end` ms. What is rounded off one part is in the next."""
    whole = usage.sampled_ms

    def part(value: int | None) -> int | None:
        return None if value is None else value * end // whole - value * begin // whole

    return Usage(
        sampled_ms=end - begin,
        busy_ms=part(usage.busy_ms),
        gpu_memory_peak=usage.gpu_memory_peak,
        gpu_memory_byte_ms=part(usage.gpu_memory_byte_ms),
        cpu_ms=part(usage.cpu_ms),
        ram_byte_ms=part(usage.ram_byte_ms),
        network_bytes=part(usage.network_bytes),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    if one is None:
        return other
    return one if other is None else one + other


def _max(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)
