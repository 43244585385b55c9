"""What Prometheus reads of a site: sessions, devices, charges, the state of the loops.

Everything is gathered when it is asked for. Labels are flavors, devices, states and loops: what a site has settled,
never what people type, so that their number is bounded. What a device does not report has no line: it is not 0.
Each metric is told in docs/reference/metrics.md.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from nbgpu.core.culling import State
from nbgpu.core.devices import Readings, UsageSample
from nbgpu.core.leases import Lease
from nbgpu.core.units import MICRO

_DEVICE: tuple[tuple[str, str, Callable[[UsageSample], float | None]], ...] = (
    (
        "utilization_ratio",
        "Share of the last moment in which it worked",
        lambda each: _share(each.gpu_utilization),
    ),
    ("memory_used_bytes", "Memory in use", lambda each: each.memory_used),
    ("memory_total_bytes", "Memory", lambda each: each.memory_total),
    ("temperature_celsius", "Temperature", lambda each: each.temperature),
    ("power_watts", "Power", lambda each: each.power),
    ("power_limit_watts", "Power limit", lambda each: each.power_limit),
    (
        "ecc_uncorrected_errors",
        "Uncorrectable memory errors since driver load",
        lambda each: each.ecc_uncorrected,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Whom to ask; each may block and may raise an error of ours."""

    leases: Callable[[], Iterable[Lease]]  # all open ones
    readings: Callable[[], Readings | None]  # the sampler's newest; None: none yet
    quarantined: Callable[[], Iterable[str]]  # device UUIDs
    verdicts: Callable[[], Mapping[State, int]]  # on servers for which an idle rule holds
    charged: Callable[[], Mapping[str, int]]  # micro-units by flavor, since ever
    health: Callable[[], Mapping[str, Any]]  # of the service, as `/health` tells it
    currency: str


class SiteCollector(Collector):
    """Gathers a site's figures."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics. Raises StoreError."""
        leases = tuple(self._sources.leases())
        yield from self._sessions(leases)
        yield from self._devices(leases)
        yield from self._loops()

    def describe(self) -> list[Metric]:
        """Say nothing at the registration: nothing needs to be asked for it."""
        return []

    def _sessions(self, leases: Collection[Lease]) -> Iterator[Metric]:
        sessions = GaugeMetricFamily("nbgpu_sessions", "Sessions that are not over", labels=["flavor", "state"])
        for (flavor, state), count in sorted(Counter((each.flavor, each.state) for each in leases).items()):
            sessions.add_metric([flavor, state], count)
        yield sessions
        stops = GaugeMetricFamily("nbgpu_planned_stops", "Sessions whose stop is decided", labels=["cause"])
        causes = Counter(each.stop_cause for each in leases if each.stop_cause is not None)
        for cause, count in sorted(causes.items()):
            stops.add_metric([cause], count)
        yield stops
        idle = GaugeMetricFamily("nbgpu_idle_verdicts", "Running servers by what is found of them", labels=["state"])
        for verdict, count in sorted(self._sources.verdicts().items()):
            idle.add_metric([verdict], count)
        yield idle
        # No counter: a credit takes from it.
        charges = GaugeMetricFamily("nbgpu_charged", "Posted to the ledger since ever", labels=["flavor", "currency"])
        for flavor, micro in sorted(self._sources.charged().items()):
            charges.add_metric([flavor, self._sources.currency], micro / MICRO)
        yield charges

    def _devices(self, leases: Collection[Lease]) -> Iterator[Metric]:
        held = Counter(uuid for each in leases for uuid in each.allocation.device_uuids)
        quarantined = frozenset(self._sources.quarantined())
        readings = self._sources.readings()
        samples = readings.samples if readings is not None else ()
        on_device = GaugeMetricFamily("nbgpu_device_leases", "Leases on a device", labels=["device"])
        for uuid in sorted({each.device_uuid for each in samples} | held.keys()):
            on_device.add_metric([uuid], held[uuid])
        yield on_device
        faults = GaugeMetricFamily("nbgpu_device_quarantined", "1: in quarantine or out of service", labels=["device"])
        for uuid in sorted({each.device_uuid for each in samples} | quarantined):
            faults.add_metric([uuid], uuid in quarantined)
        yield faults
        for name, meaning, read in _DEVICE:
            yield _of_devices(name, meaning, read, samples)

    def _loops(self) -> Iterator[Metric]:
        health = self._sources.health()
        age = GaugeMetricFamily("nbgpu_sampler_age_seconds", "Seconds since the driver last answered")
        sampled = (health.get("sampler") or {}).get("sampled_s_ago")
        if sampled is not None:
            age.add_metric([], sampled)
        yield age
        stale = GaugeMetricFamily("nbgpu_loop_stale", "1: not done for three periods", labels=["loop"])
        failures = GaugeMetricFamily("nbgpu_loop_failures", "Failures in a row", labels=["loop"])
        for name, loop in sorted((health.get("loops") or {}).items()):
            stale.add_metric([name], loop["stale"])
            failures.add_metric([name], loop["failures"])
        yield from (stale, failures)


class RunningTotal:
    """What was charged by flavor since ever: each charge is read once, as lines are only ever added."""

    def __init__(self, read: Callable[[int], tuple[int, Mapping[str, int]]]) -> None:
        """Take what returns the newest charge's id and the sums of those after another."""
        self._read = read
        self._lock = threading.Lock()
        self._last = 0
        self._sums: Counter[str] = Counter()

    def __call__(self) -> Mapping[str, int]:
        """Return micro-units by flavor. Raises StoreError."""
        with self._lock:
            self._last, new = self._read(self._last)
            for flavor, cost in new.items():
                self._sums[flavor] += cost
            return dict(self._sums)


def render_metrics(sources: Sources) -> bytes:
    """Return all metrics in Prometheus's text format. Raises StoreError."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SiteCollector(sources))
    return generate_latest(registry)


def _of_devices(
    name: str, meaning: str, read: Callable[[UsageSample], float | None], samples: Iterable[UsageSample]
) -> Metric:
    found = GaugeMetricFamily(f"nbgpu_device_{name}", meaning, labels=["device"])
    for sample in samples:
        value = read(sample)
        if value is not None:
            found.add_metric([sample.device_uuid], value)
    return found


def _share(percent: int | None) -> float | None:
    return None if percent is None else percent / 100
