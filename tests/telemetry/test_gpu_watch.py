"""Health to money: a device at fault is quarantined, its charge ends at the last good sample, and it comes back."""

import dataclasses
from datetime import timedelta

import pytest

from nbgpu.core.errors import NoCapacity
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.gpu_health import CLEAN_SAMPLES, Fault, FaultKind, Quarantine
from nbgpu.nvml import NvmlInventory
from nbgpu.spawner.stock import build_stock
from nbgpu.store import SqlLeaseStore
from nbgpu.telemetry.health import CheckedInventory
from support.site import FixedInventory, make_flavor

LOST = {"fault.*": "GPU_IS_LOST"}
WELL = {"fault.*": None}


def break_device(lab, uuid: str, how: str) -> None:
    if how == "xid":
        lab.driver.raise_xid(uuid, 79)
    elif how == "ecc":
        lab.driver.set(uuid, ecc_uncorrected=1)
    else:
        lab.driver.set(uuid, **{"fault.*": how})


@pytest.mark.parametrize(
    ("how", "kind", "cause", "looks"),
    [
        ("GPU_IS_LOST", FaultKind.LOST, "This GPU is lost", 1),
        ("RESET_REQUIRED", FaultKind.LOST, "needs a reset", 1),
        ("UNKNOWN", FaultKind.FAILED, "unknown error", 3),
        ("ecc", FaultKind.ECC, "1 uncorrectable memory error", 1),
        ("xid", FaultKind.XID, "Xid 79", 1),
    ],
)
def test_a_fault_ends_the_charge_at_the_last_good_sample_and_holds_the_device_back(lab, how, kind, cause, looks):
    lease, other = lab.start("ann"), lab.start("bob")
    (uuid,) = lease.allocation.device_uuids
    lab.sampler.tick()
    lab.look(5)
    last_good = lab.clock()
    break_device(lab, uuid, how)
    lab.look(looks)
    (quarantine,) = lab.quarantines.open().values()
    assert (quarantine.device_uuid, quarantine.fault.kind) == (uuid, kind)
    assert cause in quarantine.fault.cause
    assert quarantine.last_good_at == last_good
    assert (lab.lost_at(lease), lab.lost_at(other)) == ([last_good], [None])
    lab.look(20)
    assert lab.lost_at(lease) == [last_good], "once"
    assert len(lab.quarantines.latest()) == 1
    assert lab.device_usage(lease).sampled_ms == 10_000, "what is lost is not sampled"
    (row,) = [row for row in lab.audit.latest() if row.action == "gpu.quarantine"]
    assert (row.subject, row.detail) == (uuid, quarantine.fault.cause)
    inventory = CheckedInventory(
        FixedInventory(lab.devices), SqlLeaseStore(lab.engine), NoFleet(), quarantines=lab.quarantines
    )
    assert [device.uuid for device in inventory.snapshot().devices if device.problem] == [uuid]


class NoFleet:
    """An engine without containers."""

    def containers(self) -> tuple[()]:
        return ()


def test_what_a_users_program_causes_is_no_fault(lab):
    lease = lab.start("ann")
    lab.sampler.tick()
    for xid in (13, 31, 43, 45, 68, 109):
        lab.driver.raise_xid(lease.allocation.device_uuids[0], xid)
    lab.look(3)
    assert lab.quarantines.open() == {}
    assert lab.lost_at(lease) == [None]


def test_a_device_that_is_unreadable_for_a_moment_is_no_fault(lab):
    lease = lab.start("ann")
    (uuid,) = lease.allocation.device_uuids
    lab.sampler.tick()
    for _ in range(5):
        lab.driver.set(uuid, **{"fault.*": "UNKNOWN"})
        lab.look(2)
        lab.driver.set(uuid, **WELL)
        lab.look(1)
    assert lab.quarantines.open() == {}
    assert lab.device_usage(lease).sampled_ms == 10_000


def test_a_gpu_takes_its_mig_instances_along(make_lab):
    lab = make_lab("h100-mig")
    lease = lab.start("ann", FlavorKind.MIG, mig_profile="1g.10gb", gpus=1)
    (mig,) = lease.allocation.device_uuids
    parent = next(device.parent_uuid for device in lab.devices if device.uuid == mig)
    lab.sampler.tick()
    last_good = lab.clock()
    lab.driver.raise_xid(parent, 48)
    lab.look(1)
    assert len(lab.quarantines.open()) == 8
    assert lab.lost_at(lease) == [last_good]


@pytest.mark.parametrize(("profile", "kind", "quarantined"), [("8xA100", "gpu", 1), ("h100-mig", "mig", 0)])
def test_a_device_that_vanished_is_lost_to_who_had_it(make_lab, profile, kind, quarantined):
    """An instance that is gone was cut away by somebody: there is nothing to hold back."""
    lab = make_lab(profile)
    fields = {"mig_profile": "1g.10gb"} if kind == "mig" else {"model": "A100"}
    lease = lab.start("ann", FlavorKind(kind), gpus=1, **fields)
    lab.sampler.tick()
    last_good = lab.clock()
    lab.driver.remove(lease.allocation.device_uuids[0])
    lab.look(2)
    assert lab.lost_at(lease) == [None], "not at once: it may be a moment of the driver's"
    lab.look(1)
    assert lab.lost_at(lease) == [last_good]
    assert len(lab.quarantines.open()) == quarantined


def test_the_next_run_knows_what_the_one_before_saw(lab):
    lease = lab.start("ann")
    (uuid,) = lease.allocation.device_uuids
    lab.sampler.tick()
    lab.look(5)
    last_good = lab.clock()
    lab.writer.write()
    lab.driver.set(uuid, ecc_uncorrected=2)  # while no sampler ran
    lab.wait(30)
    lab.begin()
    lab.look(1)
    assert lab.quarantines.open()[uuid].fault.kind is FaultKind.ECC
    assert lab.lost_at(lease) == [last_good]


def test_what_is_found_while_the_database_is_away_is_kept_for_later(lab, tmp_path):
    lease = lab.start("ann")
    lab.sampler.tick()
    last_good = lab.clock()
    database = tmp_path / "nbgpu.sqlite"
    lab.engine.dispose()
    database.rename(tmp_path / "elsewhere")
    database.mkdir()
    lab.driver.raise_xid(lease.allocation.device_uuids[0], 79)  # told once
    lab.look(3)
    database.rmdir()
    (tmp_path / "elsewhere").rename(database)
    lab.look(1)
    assert lab.lost_at(lease) == [last_good]


# Coming back


def test_without_a_policy_only_an_administrator_returns_a_device(lab):
    lease = lab.start("ann")
    (uuid,) = lease.allocation.device_uuids
    lab.sampler.tick()
    lab.driver.set(uuid, **LOST)
    lab.look(1)
    lab.driver.set(uuid, **WELL)
    lab.look(100)
    assert uuid in lab.quarantines.open()
    lab.quarantines.give_back(uuid, at=lab.clock(), by="admin")
    lab.look(10)
    assert lab.quarantines.open() == {}
    assert lab.lost_at(lease) != [None], "for the session that had it, it does not come back"


def test_a_device_returned_while_it_is_still_at_fault_goes_back(lab):
    (uuid, *_) = lab.driver.uuids
    lab.sampler.tick()
    lab.driver.set(uuid, **LOST)
    lab.look(1)
    lab.quarantines.give_back(uuid, at=lab.clock(), by="admin")
    lab.look(1)
    assert uuid in lab.quarantines.open()
    assert len(lab.quarantines.latest()) == 2


def test_a_counted_memory_error_is_not_held_against_a_returned_device(lab):
    (uuid, *_) = lab.driver.uuids
    lab.sampler.tick()
    lab.driver.set(uuid, ecc_uncorrected=1)
    lab.look(1)
    lab.quarantines.give_back(uuid, at=lab.clock(), by="admin")
    lab.look(10)
    assert lab.quarantines.open() == {}
    lab.driver.set(uuid, ecc_uncorrected=2)
    lab.look(1)
    assert uuid in lab.quarantines.open()


def test_by_policy_a_device_comes_back_after_reading_well_for_long_enough(make_lab):
    lab = make_lab(return_after=timedelta(minutes=5))
    (uuid, *_) = lab.driver.uuids
    lab.sampler.tick()
    lab.driver.set(uuid, **LOST)
    lab.look(1)
    lab.driver.set(uuid, **WELL)
    lab.look(100)
    lab.driver.set(uuid, **LOST)  # not well after all: it begins anew
    lab.look(1)
    lab.driver.set(uuid, **WELL)
    lab.look(149)
    assert uuid in lab.quarantines.open()
    lab.look(3)
    assert lab.quarantines.open() == {}
    assert [row.action for row in lab.audit.latest()] == ["gpu.return", "gpu.quarantine"]
    assert lab.quarantines.latest()[0].returned_by == "sampler"


@pytest.mark.case(25)
def test_a_device_that_a_container_lost_comes_back_when_the_session_has_left_it(lab):
    lease = lab.start("ann")
    (uuid,) = lease.allocation.device_uuids
    lab.sampler.tick()
    seen_well = lab.clock()
    lab.look(5)
    fault = Fault(FaultKind.CONTAINER, "The container lost it.")
    lab.watch.report_lost(lease.session_id, Quarantine(uuid, lab.clock(), fault, last_good_at=seen_well))
    lab.look(30)
    assert lab.quarantines.open()[uuid].fault == fault
    assert lab.lost_at(lease) == [seen_well]
    lab.leases.release(lease.session_id, "stopped")
    lab.look(CLEAN_SAMPLES)
    assert lab.quarantines.open() == {}


@pytest.mark.case(25)
def test_a_device_that_turns_out_to_be_at_fault_itself_does_not_come_back_so(lab):
    lease = lab.start("ann")
    (uuid,) = lease.allocation.device_uuids
    lab.sampler.tick()
    fault = Fault(FaultKind.CONTAINER, "The container lost it.")
    lab.watch.report_lost(lease.session_id, Quarantine(uuid, lab.clock(), fault))
    lab.look(1)
    lab.driver.raise_xid(uuid, 79)
    lab.look(1)
    assert lab.quarantines.open()[uuid].fault.kind is FaultKind.XID
    lab.leases.release(lease.session_id, "stopped")
    lab.look(50)
    assert uuid in lab.quarantines.open()


def test_marks_are_of_real_devices_only(lab):
    """A GPU that was lost before anybody knew its UUID has no history to keep."""
    lab.driver.set(lab.driver.uuids[0], **LOST)
    lab.begin()
    lab.look(2)
    assert all(not uuid.startswith("GPU-lost") for uuid in lab.watch.marks())
    assert len(lab.watch.marks()) == 7
    assert dataclasses.asdict(next(iter(lab.watch.marks().values())))["failed"] == 0


@pytest.mark.case(26)
def test_after_an_update_of_the_driver_gpu_flavors_say_so_and_cpu_flavors_start(lab):
    lab.driver.set_driver(**{"fault.nvmlInit": "LIB_RM_VERSION_MISMATCH"})
    inventory = CheckedInventory(NvmlInventory(now=lab.clock), lab.leases, NoFleet(), quarantines=lab.quarantines)
    snapshot = inventory.snapshot()
    gpu, cpu = (build_stock(make_flavor(kind.value, kind), snapshot, ()) for kind in (FlavorKind.GPU, FlavorKind.CPU))
    assert str(gpu.problem) == "The NVIDIA driver was updated: restart this machine to use its GPUs again."
    assert cpu.available
    lab.devices = snapshot.devices
    with pytest.raises(NoCapacity, match="is free now"):
        lab.start("ann")
    assert lab.leases.open_leases() == (), "nothing is charged for what could not start"
    assert lab.start("bob", FlavorKind.CPU, gpus=0).allocation.slots == ()
