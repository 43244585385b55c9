"""What was measured of servers since somebody last asked, averaged: the watch over idle servers lives on it."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nbgpu.core.activity import Reading
from nbgpu.core.periods import Period, to_seconds
from nbgpu.core.usage import SERVER, Metered, Usage

MOST = 100_000  # sessions and devices that are kept where nobody asks
_MS = timedelta(milliseconds=1)


@dataclass(slots=True)
class _Sum:
    """The sum of one reading, over the time in which it was reported."""

    total: int = 0
    ms: int = 0

    def add(self, value: int | None, ms: int) -> None:
        if value is not None:
            self.total += value
            self.ms += ms

    @property
    def per_ms(self) -> float | None:
        return self.total / self.ms if self.ms else None


@dataclass(slots=True)
class _Gauge:
    """What one device, or server, was measured."""

    start: datetime
    until: datetime
    busy: _Sum = field(default_factory=_Sum)
    cpu: _Sum = field(default_factory=_Sum)
    network: _Sum = field(default_factory=_Sum)
    memory: int | None = None  # bytes, the newest

    def add(self, until: datetime, usage: Usage) -> None:
        ms = usage.sampled_ms
        self.until = until
        self.busy.add(usage.busy_ms, ms)
        self.cpu.add(usage.cpu_ms, ms)
        self.network.add(usage.network_bytes, ms)
        held = usage.gpu_memory_byte_ms
        self.memory = None if held is None else held // ms


class Gauges:
    """Measurements by session; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gauges: dict[Metered, _Gauge] = {}

    def add(self, metered: Metered, until: datetime, usage: Usage) -> None:
        """Add what was measured up to an instant."""
        with self._lock:
            gauge = self._gauges.get(metered)
            if gauge is None:
                if len(self._gauges) >= MOST:
                    return
                gauge = self._gauges[metered] = _Gauge(until - usage.sampled_ms * _MS, until)
            gauge.add(until, usage)

    def take(self, held: Mapping[str, frozenset[str]]) -> dict[str, list[Reading]]:
        """Return the readings since the last call, of sessions and the devices that they hold; others are dropped."""
        with self._lock:
            gauges, self._gauges = self._gauges, {}
        return {session: list(_read(session, devices, gauges)) for session, devices in held.items()}


def _read(session: str, devices: frozenset[str], gauges: Mapping[Metered, _Gauge]) -> list[Reading]:
    found = []
    server = gauges.get(Metered(session, SERVER))
    if server is not None:
        cpu, network = server.cpu.per_ms, server.network.per_ms
        reading = Reading(
            span=_span([server]),
            cpu_percent=None if cpu is None else cpu * 100,
            network_rate=None if network is None else network * 1000,
        )
        found.append(reading)
    mine = [gauges[each] for device in devices if (each := Metered(session, device)) in gauges]
    if mine and len(mine) == len(devices):  # one that was not looked at may be at work
        busy, memory = [each.busy.per_ms for each in mine], [each.memory for each in mine]
        reported = [each for each in busy if each is not None]
        held = [each for each in memory if each is not None]
        reading = Reading(
            span=_span(mine),
            gpu_percent=max(reported) * 100 if len(reported) == len(mine) else None,
            gpu_memory=sum(held) if len(held) == len(mine) else None,
        )
        found.append(reading)
    return found


def _span(gauges: list[_Gauge]) -> Period:
    return Period(to_seconds(min(each.start for each in gauges)), to_seconds(max(each.until for each in gauges)))
