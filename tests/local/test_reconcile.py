"""The reconciler over servers that are processes: what a crash leaves is undone, adopted or removed."""

import os
import signal
from datetime import UTC, datetime

import pytest

from nbgpu.core.errors import HubRefused
from nbgpu.core.leases import ServerRef
from nbgpu.core.reconcile import HubServer, Repair
from nbgpu.store import SqlAuditLog
from nbgpu.telemetry.reconciler import Reconciler
from support.site import until
from support.users import start


class FakeHub:
    """What the hub says, as a test decides."""

    def __init__(self) -> None:
        self.known: list[HubServer] = []
        self.started: list[str] = []
        self.refusal: HubRefused | None = None

    def servers(self) -> tuple[HubServer, ...]:
        return tuple(self.known)

    def find(self, server: ServerRef) -> HubServer | None:
        return next((each for each in self.servers() if each.server == server), None)

    def start(self, lease) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.started.append(lease.session_id)


@pytest.fixture
def hub() -> FakeHub:
    return FakeHub()


@pytest.fixture
def reconciler(local, hub) -> Reconciler:
    audit = SqlAuditLog(local.site.leases._engine)
    return Reconciler(
        leases=local.site.leases, fleet=local.sessions, hub=hub, audit=audit, inventory=local.site.inventory
    )


async def run_server(local) -> str:
    await start(local.users["ann"], profile="one")
    return local.users["ann"].spawner.session_id


def mend(reconciler: Reconciler) -> list[Repair]:
    return [reconciler.mend(found.session_id).repair for found in reconciler.compare()]


async def test_a_server_that_the_hub_knows_is_left_alone(local, hub, reconciler):
    session = await run_server(local)
    hub.known = [HubServer(local.leases[0].server, session, pending=False)]
    assert mend(reconciler) == []


async def test_a_running_server_that_the_hub_lost_is_adopted(local, hub, reconciler):
    session = await run_server(local)
    assert mend(reconciler) == [Repair.ADOPT]
    assert hub.started == [session]
    assert len(local.processes()) == 2


async def test_one_that_the_hub_will_not_have_is_ended(local, hub, reconciler):
    await run_server(local)
    hub.refusal = HubRefused("no such user")
    assert mend(reconciler) == [Repair.UNDO]
    assert local.left() == (0, 0, [])


async def test_a_stop_that_was_broken_off_is_finished(local, reconciler):
    local.site.leases.mark_ending(await run_server(local))
    assert mend(reconciler) == [Repair.UNDO]
    assert local.left() == (0, 0, [])


async def test_a_start_that_was_broken_off_is_undone(local, reconciler):
    choice = local.site.desk.menu.choose({"profile": "one"}, frozenset())
    local.site.desk.acquire(local.users["ann"].spawner.server_ref, choice, frozenset())
    assert mend(reconciler) == [Repair.UNDO]
    assert local.leases == ()


async def test_a_server_that_ended_while_nobody_looked_ended_when_its_keeper_saw_it(local, reconciler):
    await run_server(local)
    keeper = local.record("ann")["pid"]
    (server,) = [pid for pid in local.processes() if pid != keeper]
    os.kill(server, signal.SIGKILL)
    await until(lambda: not local.processes())
    (fact,) = local.sessions.containers()
    assert not fact.running
    assert fact.finished_at.timestamp() == pytest.approx(local.record("ann")["ended_at"], abs=1e-3)
    assert local.sessions.end(fact.id) == fact.finished_at
    assert local.sessions.end(fact.id) is None


async def test_a_session_that_is_ended_ends_when_its_last_process_does(local):
    session = await run_server(local)
    before = datetime.now(UTC)
    assert before < local.sessions.end(session) <= datetime.now(UTC)


async def test_a_server_that_died_while_nobody_looked_is_cleared_away(local, reconciler):
    await run_server(local)
    for pid in local.processes():
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not local.processes())
    assert mend(reconciler) == [Repair.UNDO]
    assert local.left() == (0, 0, [])


async def test_processes_without_a_lease_are_ended_even_without_a_record(local, reconciler):
    local.site.leases.release(await run_server(local), "lost")
    (local.folder / "ann.json").unlink()
    assert mend(reconciler) == [Repair.REMOVE]
    assert local.left() == (0, 0, [])
    assert mend(reconciler) == []


async def test_a_record_without_processes_or_lease_is_forgotten(local, reconciler):
    session = await run_server(local)
    for pid in local.processes():
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not local.processes())
    local.site.leases.release(session, "lost")
    assert mend(reconciler) == [Repair.REMOVE]
    assert local.left() == (0, 0, [])


async def test_the_fleet_never_ends_the_next_life_of_a_server(local):
    old = await run_server(local)
    await local.users["ann"].stop()
    await run_server(local)
    local.sessions.end(old)
    assert await local.users["ann"].spawner.poll() is None
