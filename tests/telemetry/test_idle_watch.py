"""The watch over idle servers: measurements and reports become verdicts, and a person's act is seen at once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from nbgpu.core.activity import Report, Signal
from nbgpu.core.authorize import Cause
from nbgpu.core.culling import Extension
from nbgpu.core.errors import StoreError
from nbgpu.core.idle_policy import IdlePolicy, IdleSite
from nbgpu.core.leases import ServerRef
from nbgpu.core.periods import to_seconds
from nbgpu.core.stops import Stop
from nbgpu.core.usage import Metered, Usage, measure_device
from nbgpu.store.idle import Watched
from nbgpu.telemetry.gauges import Gauges
from nbgpu.telemetry.idle import HURRIED, IdleWatch

BEGIN = datetime(2026, 3, 10, 12, tzinfo=UTC)
EVERY = 30


class Site:
    """A store of one session, and the clocks."""

    def __init__(self) -> None:
        self.now = BEGIN
        self.seconds = 0.0
        self.watch_one = Watched(
            session_id="s1",
            server=ServerRef("ann"),
            flavor="a100",
            has_gpu=True,
            devices=frozenset({"GPU-1"}),
            policy=IdlePolicy(idle_limit=1800),
            tracks={},
            extension=Extension(),
            decided=None,
        )
        self.entries = []

    def watched(self):
        return (self.watch_one,)

    def write(self, entries, now):
        self.entries = list(entries)
        for entry in self.entries:
            self.watch_one = replace(self.watch_one, tracks=entry.tracks, decided=entry.stop)

    def go(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.seconds += seconds


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def gauges() -> Gauges:
    return Gauges()


@pytest.fixture
def watch(site, gauges) -> IdleWatch:
    idle_site = IdleSite(every=EVERY)
    return IdleWatch(store=site, gauges=gauges, site=idle_site, clock=lambda: site.now, monotonic=lambda: site.seconds)


def measure(site, gauges, *, utilization=0, memory=0, cpu_ms=100):
    """What the samplers tell of ten seconds."""
    gauges.add(Metered("s1"), site.now, Usage(sampled_ms=10_000, cpu_ms=cpu_ms, ram_byte_ms=1, network_bytes=5000))
    gauges.add(Metered("s1", "GPU-1"), site.now, measure_device(10_000, utilization=utilization, memory_used=memory))


def go_on(site, gauges, watch, seconds, *, report=None, **measured):
    for _ in range(0, seconds, 10):
        site.go(10)
        measure(site, gauges, **measured)
        watch.report("s1", report or Report(kernels=1))
        watch.turn()


def test_averages_are_over_what_was_reported(site, gauges):
    gauges.add(Metered("s1"), site.now, Usage(sampled_ms=10_000, ram_byte_ms=1))  # a first look knows no CPU
    site.go(10)
    measure(site, gauges, utilization=80, memory=2**30, cpu_ms=5000)
    server, devices = gauges.take({"s1": frozenset({"GPU-1"})})["s1"]
    assert (server.cpu_percent, server.network_rate) == (50, 500)
    assert (devices.gpu_percent, devices.gpu_memory) == (80, 2**30)
    assert server.span.start == to_seconds(BEGIN) - 10
    assert gauges.take({"s1": frozenset({"GPU-1"})}) == {"s1": []}


def test_a_device_that_was_not_looked_at_leaves_all_unknown(site, gauges):
    measure(site, gauges)
    assert len(gauges.take({"s1": frozenset({"GPU-1", "GPU-2"})})["s1"]) == 1


def test_of_two_devices_the_busier_counts_and_one_that_reports_nothing_hides_both(site, gauges):
    devices = frozenset({"GPU-1", "GPU-2"})
    for uuid, utilization in (("GPU-1", 3), ("GPU-2", 40)):
        gauges.add(Metered("s1", uuid), site.now, measure_device(2000, utilization=utilization, memory_used=10))
    (reading,) = gauges.take({"s1": devices})["s1"]
    assert (reading.gpu_percent, reading.gpu_memory) == (40, 20)
    for uuid, utilization in (("GPU-1", 3), ("GPU-2", None)):
        gauges.add(Metered("s1", uuid), site.now, measure_device(2000, utilization=utilization, memory_used=10))
    assert gauges.take({"s1": devices})["s1"][0].gpu_percent is None


def test_an_idle_server_is_found_warned_of_and_saved_by_an_act_at_once(site, gauges, watch):
    go_on(site, gauges, watch, 1000)
    (entry,) = site.entries
    assert entry.stop is not None
    assert entry.stop.cause is Cause.IDLE
    assert entry.stop.at == pytest.approx(to_seconds(BEGIN) + 1800, abs=30)
    looked = site.entries
    site.go(HURRIED)
    watch.report("s1", Report(person_ago=0.5))
    watch.turn()
    assert site.entries is not looked, "it was not looked at once"
    assert site.entries[0].stop is None


def test_one_who_types_on_makes_no_look_after_the_other(site, gauges, watch):
    """The act does not call off the stop: of an idle GPU, or because others are warned as well."""
    go_on(site, gauges, watch, 1000)
    looks = 0
    for _ in range(25):
        site.go(1)
        site.watch_one = replace(site.watch_one, decided=Stop(to_seconds(site.now) + 60, Cause.IDLE))
        before = site.entries
        watch.report("s1", Report(person_ago=0.5))
        watch.turn()
        looks += site.entries is not before
    assert looks <= 2


def test_what_was_told_before_a_look_that_failed_counts_as_not_told(site, gauges, watch):
    go_on(site, gauges, watch, 900)
    write = site.write

    def fail(entries, now):
        raise StoreError("locked")

    site.write = fail
    site.go(EVERY)
    measure(site, gauges, cpu_ms=9000)  # work, of which nobody will know
    with pytest.raises(StoreError, match="locked"):
        watch.turn()
    site.write = write
    go_on(site, gauges, watch, 60)
    assert site.entries[0].verdict.forecast.since >= to_seconds(BEGIN) + 900


def test_reports_between_two_looks_are_told_together(site, watch):
    watch.report("s1", Report(kernels=1, kernels_busy=1, person_ago=40))
    watch.report("s1", Report(kernels=1))
    watch.turn()
    tracks = site.entries[0].tracks
    assert tracks[Signal.KERNEL].is_active
    assert tracks[Signal.PERSON].active_at is not None


def test_looks_are_as_far_apart_as_the_site_says(site, gauges, watch):
    watch.turn()
    first = site.entries
    site.go(EVERY - 1)
    watch.report("s1", Report(person_ago=0.5))
    watch.turn()
    assert site.entries is first, "an act hurries only where a stop is decided"
    site.go(1)
    watch.turn()
    assert site.entries is not first


@pytest.mark.parametrize(
    ("measured", "report"),
    [({"utilization": 90}, None), ({"cpu_ms": 9000}, None), ({}, Report(kernels_busy=1))],
)
def test_work_of_any_kind_keeps_it(site, gauges, watch, measured, report):
    go_on(site, gauges, watch, 4000, report=report, **measured)
    assert site.entries[0].stop is None


def test_a_sampler_that_is_away_makes_nothing_idle(site, watch):
    for _ in range(400):
        site.go(10)
        watch.report("s1", Report())
        watch.turn()
    assert site.entries[0].stop is None
    assert Signal.CPU not in site.entries[0].tracks


def test_reports_of_others_are_forgotten(site, watch):
    watch.report("s2", Report())
    watch.turn()
    assert watch._reports == {}
