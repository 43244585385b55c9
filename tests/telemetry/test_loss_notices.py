"""A server whose GPU is lost is told: once, and again until it could be."""

import pytest

from nbgpu.core.errors import EngineUnavailable
from nbgpu.core.gpu_health import Fault, FaultKind, Quarantine
from nbgpu.telemetry.loss_notices import CAUSE, LossTeller


class Notices:
    """Keeps what was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, object, str | None]] = []
        self.away = False

    def deliver(self, session_id, text, stop_at, cause) -> bool:
        if self.away:
            raise EngineUnavailable("Docker does not answer.")
        self.told.append((session_id, text, stop_at, cause))
        return True


def lose(lab, lease) -> None:
    lab.sampler.tick()
    lab.driver.set(lease.allocation.device_uuids[0], **{"fault.*": "GPU_IS_LOST"})
    lab.look(1)


@pytest.mark.case(25)
def test_who_lost_a_gpu_is_told_once_what_to_do(lab):
    lease = lab.start("ann")
    lab.start("bob")
    notices = Notices()
    teller = LossTeller(lab.quarantines.losses, notices, lab.clock)
    teller.tick()
    lose(lab, lease)
    for _ in range(3):
        teller.tick()
        lab.wait(10)
    ((session, text, stop_at, cause),) = notices.told
    assert (session, stop_at, cause) == (lease.session_id, None, CAUSE)
    assert lease.allocation.device_uuids[0] in text
    assert "09:00:00 UTC" in text
    assert "Save your work, stop the server and start it again" in text


def test_who_could_not_be_told_is_told_later(lab):
    notices = Notices()
    notices.away = True
    teller = LossTeller(lab.quarantines.losses, notices, lab.clock)
    lose(lab, lab.start("ann"))
    teller.tick()
    notices.away = False
    teller.tick()
    assert len(notices.told) == 1


def test_a_later_run_does_not_tell_old_news(lab):
    notices = Notices()
    lose(lab, lab.start("ann"))
    lab.wait(3600)
    LossTeller(lab.quarantines.losses, notices, lab.clock).tick()
    assert notices.told == []


def test_of_a_device_that_one_container_lost_only_that_server_is_told(lab):
    lease = lab.start("ann", gpus=2)
    first, second = lease.allocation.device_uuids
    fault = Fault(FaultKind.CONTAINER, "It lost it.")
    for uuid in (first, second):
        lab.quarantines.put(Quarantine(uuid, lab.clock(), fault), lease.session_id)
    notices = Notices()
    LossTeller(lab.quarantines.losses, notices, lab.clock).tick()
    assert [session for session, *_ in notices.told] == [lease.session_id] * 2
    lab.leases.release(lease.session_id, "stopped")
    assert lab.quarantines.losses() == ()
