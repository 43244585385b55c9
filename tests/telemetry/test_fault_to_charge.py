"""From a device's fault to the bill: the GPU's line ends at its last good sample, all others go on."""

from datetime import timedelta

import pytest

from nbgpu.core.flavors import FlavorKind
from nbgpu.core.gpu_health import Fault, FaultKind, Quarantine
from nbgpu.core.prices import build_prices
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.metering import SqlMetering
from nbgpu.store.prices import SqlPrices
from support.site import make_flavor


def charged(lab, resource: str, session_id: str) -> int:
    """Return the seconds that a session is charged of a device, or of the server ("")."""
    lines = SqlLedger(lab.engine).charges(session_id=session_id)
    return sum(line.consumed_seconds for line in lines if line.resource_id == resource)


def end(lab, *leases) -> None:
    for lease in leases:
        lab.leases.release(lease.session_id, "stopped", lab.clock())
    SqlMetering(lab.engine).settle()


@pytest.fixture
def priced(lab):
    SqlPrices(lab.engine).ensure(build_prices(make_flavor("gpu", FlavorKind.GPU), "USD", 0))
    return lab


def test_only_the_device_at_fault_is_charged_less(priced):
    lab = priced
    two, other = lab.start("ann", gpus=2), lab.start("bob")
    lost, well = two.allocation.device_uuids
    (others,) = other.allocation.device_uuids
    lab.sampler.tick()
    lab.look(300)
    lab.driver.set(lost, **{"fault.*": "GPU_IS_LOST"})
    lab.look(300)
    end(lab, two, other)
    assert charged(lab, lost, two.session_id) == 600
    assert charged(lab, well, two.session_id) == charged(lab, "", two.session_id) == 1200
    assert charged(lab, others, other.session_id) == 1200


def test_a_device_that_comes_back_is_not_charged_again_to_who_had_it_but_to_the_next(priced):
    lab = priced
    lease = lab.start("ann")
    (uuid,) = lease.allocation.device_uuids
    lab.sampler.tick()
    lab.look(300)
    lab.driver.raise_xid(uuid, 79)
    lab.look(1)
    lab.quarantines.give_back(uuid, at=lab.clock(), by="admin")
    lab.look(299)
    end(lab, lease)
    assert charged(lab, uuid, lease.session_id) == 600
    following = lab.start("bob")
    assert following.allocation.device_uuids == (uuid,)
    lab.look(300)
    end(lab, following)
    assert charged(lab, uuid, following.session_id) == 600


def test_a_device_out_of_service_is_charged_to_who_is_on_it_and_leased_to_nobody_new(priced):
    lab = priced
    lease = lab.start("ann")
    (uuid,) = lease.allocation.device_uuids
    lab.sampler.tick()
    lab.look(30)
    cordon = Fault(FaultKind.CORDON, "root has taken it out of service: its fan is loud")
    assert lab.quarantines.put(Quarantine(uuid, lab.clock(), cordon))
    lab.look(300)
    assert lab.leases.find(lease.session_id).lost_devices == frozenset()
    assert uuid in lab.quarantines.open(), "it reads clean, and stays out of service"
    end(lab, lease)
    assert charged(lab, uuid, lease.session_id) == 660


def test_a_driver_that_fails_ends_no_charge(priced):
    lab = priced
    lease = lab.start("ann")
    lab.sampler.tick()
    lab.look(30)
    lab.driver.set_driver(**{"fault.*": "UNINITIALIZED"})
    lab.look(300)
    lab.driver.set_driver(**{"fault.*": None})
    lab.look(30)
    end(lab, lease)
    assert charged(lab, lease.allocation.device_uuids[0], lease.session_id) == 720


def test_what_was_charged_before_the_loss_was_known_is_taken_back(priced):
    """The sampler was down while the hour was posted; its last good sample lies before that."""
    lab = priced
    lease = lab.start("ann")
    (uuid,) = lease.allocation.device_uuids
    lab.sampler.tick()
    lab.look(300)
    lab.writer.write()
    lab.driver.set(uuid, ecc_uncorrected=3)
    lab.wait(2 * 3600)
    metering = SqlMetering(lab.engine)
    metering.note_seen([lease.session_id], lab.clock())
    metering.settle()
    assert charged(lab, uuid, lease.session_id) > 600
    lab.begin()
    lab.look(1)
    end(lab, lease)
    assert charged(lab, uuid, lease.session_id) == 600
    assert charged(lab, "", lease.session_id) == 600 + 2 * 3600 + timedelta(seconds=2).total_seconds()
