"""The sampler: what sessions make of their devices, with gaps where nobody could look."""

from datetime import timedelta

import pytest

from nbgpu.core.errors import DriverError, StoreError
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.usage import HOUR, MINUTE, Usage
from nbgpu.telemetry.sampler import MINUTES_KEPT

GIB = 2**30


def fault(error: str | None) -> dict[str, str | None]:
    return {"fault.*": error}


def test_a_session_is_credited_with_what_its_device_did(lab):
    lab.sampler.tick()
    lease = lab.start("ann")
    (uuid,) = lease.allocation.device_uuids
    lab.driver.set(uuid, gpu_utilization=80, memory_used=10 * GIB)
    lab.look(10)
    lab.driver.set(uuid, gpu_utilization=20, memory_used=30 * GIB)
    lab.look(10)
    usage = lab.device_usage(lease)
    assert (usage.sampled_ms, usage.busy_ms) == (40_000, 20_000)
    assert (usage.gpu_memory_peak, usage.gpu_memory_mean) == (30 * GIB, 20 * GIB)


def test_a_session_has_no_time_before_it_began_nor_after_it_ended(lab):
    lab.sampler.tick()
    lab.wait(1.5)
    lease = lab.start("ann")
    lab.look(1, every=0.5)
    assert lab.device_usage(lease).sampled_ms == 500
    lab.look(2)
    lab.leases.release(lease.session_id, "stopped")
    lab.look(5)
    assert lab.device_usage(lease).sampled_ms == 4500


def test_a_pause_is_a_gap(lab):
    lease = lab.start("ann")
    lab.sampler.tick()
    lab.look(3)
    lab.wait(3600)  # the machine was suspended
    lab.look(3)
    assert lab.device_usage(lease).sampled_ms == 6000 + 4000


@pytest.mark.case(27)
def test_a_driver_that_fails_three_times_leaves_a_gap_and_is_read_again_at_once(lab):
    lease = lab.start("ann")
    lab.sampler.tick()
    lab.look(3)
    lab.driver.set_driver(**fault("UNINITIALIZED"))
    lab.look(3)
    lab.driver.set_driver(**fault(None))
    assert lab.sampler.health()["problem"]
    lab.look(1)
    assert lab.sampler.health() == {"sampled_s_ago": 0.0, "stale": False, "problem": None}
    lab.look(2)
    assert lab.device_usage(lease).sampled_ms == 12_000
    assert lab.quarantines.open() == {}, "a driver that can't be asked says nothing of a device"
    assert lab.lost_at(lease) == [None]


@pytest.mark.case(26)
def test_a_driver_that_was_updated_ends_no_charge_and_quarantines_nothing(lab):
    lease = lab.start("ann")
    lab.sampler.tick()
    lab.driver.set_driver(**fault("LIB_RM_VERSION_MISMATCH"))
    for _ in range(30):
        lab.wait(2)
        with pytest.raises(DriverError):
            lab.sampler.tick()
    lab.driver.set_driver(**{"fault.*": None, "fault.nvmlDeviceGetCount": "LIB_RM_VERSION_MISMATCH"})
    lab.wait(2)
    with pytest.raises(DriverError, match="The NVIDIA driver was updated: restart this machine"):
        lab.sampler.tick()
    assert lab.lost_at(lease) == [None]
    assert lab.quarantines.open() == {}


@pytest.mark.case(22)
def test_fields_that_are_not_reported_are_null_one_by_one(lab):
    lease = lab.start("ann")
    (uuid,) = lease.allocation.device_uuids
    calls = ("UtilizationRates", "PowerUsage", "FanSpeed", "TotalEccErrors")
    lab.driver.set(
        uuid, memory_used=GIB, processes="4242:", **{f"fault.nvmlDeviceGet{call}": "NOT_SUPPORTED" for call in calls}
    )
    lab.sampler.tick()
    lab.look(5)
    usage = lab.device_usage(lease)
    assert (usage.sampled_ms, usage.busy_ms, usage.gpu_memory_mean) == (10_000, None, GIB)
    assert lab.quarantines.open() == {}


@pytest.mark.case(23)
def test_the_load_of_a_mig_instance_is_not_reported(make_lab):
    lab = make_lab("h100-mig")
    lease = lab.start("ann", FlavorKind.MIG, mig_profile="1g.10gb", gpus=1)
    lab.sampler.tick()
    lab.look(5)
    usage = lab.device_usage(lease)
    assert (usage.sampled_ms, usage.busy_ms, usage.gpu_memory_mean) == (10_000, None, 12 * 2**20)


def test_a_shared_device_is_parted_by_whose_processes_do_what(make_lab):
    lab = make_lab("t4")
    ann, bob, cat = (lab.start(user, FlavorKind.SHARED, slots=4) for user in ("ann", "bob", "cat"))
    (uuid,) = ann.allocation.device_uuids
    lab.owners = {11: ann.session_id, 12: ann.session_id, 13: bob.session_id, 14: None}
    lab.driver.set(
        uuid,
        gpu_utilization=90,
        processes=f"11:{GIB},12:{GIB},13:{4 * GIB},14:{GIB}",
        process_utilization="11:20,12:10,13:50,14:10",
    )
    lab.sampler.tick()
    lab.look(5)
    assert lab.device_usage(ann) == used(10_000, 3000, 2 * GIB)
    assert lab.device_usage(bob) == used(10_000, 5000, 4 * GIB)
    assert lab.device_usage(cat) == used(10_000, 0, 0), "nothing runs there: that is 0, and reported"


def used(ms: int, busy: int | None, memory: int | None) -> Usage:
    return Usage(
        sampled_ms=ms,
        busy_ms=busy,
        gpu_memory_peak=memory,
        gpu_memory_byte_ms=None if memory is None else ms * memory,
    )


@pytest.mark.case(21)
def test_processes_that_nobody_can_place_are_given_to_nobody(make_lab):
    lab = make_lab("t4")
    ann, bob = (lab.start(user, FlavorKind.SHARED, slots=4) for user in ("ann", "bob"))
    (uuid,) = ann.allocation.device_uuids
    lab.owners = {11: ann.session_id}
    lab.driver.set(uuid, memory_used=9 * GIB, processes=f"11:{GIB},99999999:{GIB}", process_utilization="11:20")
    lab.sampler.tick()
    lab.look(5)
    for lease in (ann, bob):
        assert lab.device_usage(lease) == used(10_000, None, None)


@pytest.mark.parametrize(
    ("why", "processes", "utilization", "busy", "memory"),
    [
        ("memory of a process is not reported", "11:", "11:50", 5000, None),
        ("no utilization by process", f"11:{GIB}", None, None, GIB),
    ],
)
def test_what_a_shared_device_does_not_report_is_null(make_lab, why, processes, utilization, busy, memory):
    lab = make_lab("t4")
    lease = lab.start("ann", FlavorKind.SHARED, slots=4)
    (uuid,) = lease.allocation.device_uuids
    lab.owners = {11: lease.session_id}
    lab.driver.set(uuid, processes=processes, process_utilization=utilization)
    lab.sampler.tick()
    lab.look(5)
    assert lab.device_usage(lease) == used(10_000, busy, memory), why


def test_a_sampler_that_was_killed_loses_what_it_had_not_written_and_no_more(lab):
    lease = lab.start("ann")
    lab.sampler.tick()
    lab.look(10)
    lab.writer.write()
    lab.look(5)  # lost
    lab.begin()
    lab.look(1)  # the first look of a run is no time
    lab.look(4)
    lab.writer.write()
    assert lab.device_usage(lease).sampled_ms == 20_000 + 8000


def test_a_database_that_is_away_for_a_while_loses_nothing(lab, tmp_path):
    lease = lab.start("ann")
    lab.sampler.tick()
    lab.look(10)
    database = tmp_path / "nbgpu.sqlite"
    lab.engine.dispose()
    database.rename(tmp_path / "elsewhere")
    database.mkdir()  # what opens it fails
    lab.look(30)
    with pytest.raises(StoreError, match="can't be opened"):
        lab.writer.write()
    database.rmdir()
    (tmp_path / "elsewhere").rename(database)
    lab.look(10)
    assert lab.device_usage(lease).sampled_ms == 100_000


@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_a_clock_that_is_set_changes_no_sum(lab, step_s):
    lease = lab.start("ann")
    lab.sampler.tick()
    lab.look(40)
    lab.writer.write()
    lab.clock.forward(step_s)
    lab.look(40)
    lab.writer.write()
    lab.clock.forward(-step_s)
    lab.look(40)
    assert lab.device_usage(lease).sampled_ms == 240_000


def test_hours_are_what_their_minutes_sum_to_and_outlive_them(lab):
    lease = lab.start("ann")
    (uuid,) = lease.allocation.device_uuids
    lab.driver.set(uuid, gpu_utilization=50)
    lab.sampler.tick()
    for _ in range(4):
        lab.look(20, every=3)
        lab.writer.write()
    begin = lab.clock() - HOUR
    minutes = lab.usage.minutes(lease.session_id, begin, lab.clock() + MINUTE)
    assert [entry.usage.sampled_ms for entry in minutes] == [60_000] * 4
    assert sum(entry.usage.busy_ms for entry in minutes) == lab.device_usage(lease).busy_ms == 120_000
    lab.wait(MINUTES_KEPT / timedelta(seconds=1) + 300)
    lab.writer.forget()
    assert lab.usage.minutes(lease.session_id, begin, lab.clock()) == ()
    assert lab.device_usage(lease).sampled_ms == 240_000
