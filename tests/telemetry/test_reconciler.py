"""The reconciler on a real lease database, real spawners and the fake engine; the hub is a fake at its port."""

import asyncio
import contextlib
import dataclasses

import pytest
import requests
from sqlalchemy import text

from nbgpu.core.errors import EngineUnavailable, HubRefused, HubUnavailable
from nbgpu.core.leases import LeaseState, ServerRef
from nbgpu.core.reconcile import HubServer, Repair
from nbgpu.spawner.fleet import DockerFleet
from nbgpu.store import SqlAuditLog
from nbgpu.telemetry.reconciler import ReconcileLoop, Reconciler
from support.fake_docker import FakeDockerClient
from support.site import PREFIX, build_site, until
from support.users import start


class FakeHub:
    """What the hub says, as a test decides."""

    def __init__(self) -> None:
        self.known: list[HubServer] = []
        self.started: list[str] = []
        self.fault: Exception | None = None
        self.refusal: Exception | None = None

    def servers(self) -> tuple[HubServer, ...]:
        if self.fault is not None:
            raise self.fault
        return tuple(self.known)

    def find(self, server: ServerRef) -> HubServer | None:
        return next((each for each in self.servers() if each.server == server), None)

    def start(self, lease) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.started.append(lease.session_id)
        self.known.append(HubServer(lease.server, lease.session_id, pending=False))


@pytest.fixture
def site(tmp_path):
    client = FakeDockerClient()
    client.add_image("sha256:base")
    site = build_site(tmp_path, client, gpus=2)
    yield site
    site.close()


@pytest.fixture
def hub() -> FakeHub:
    return FakeHub()


@pytest.fixture
def audit(site) -> SqlAuditLog:
    return SqlAuditLog(site.leases._engine)


@pytest.fixture
def reconciler(site, hub, audit) -> Reconciler:
    return Reconciler(
        leases=site.leases, fleet=DockerFleet(site.docker, PREFIX), hub=hub, audit=audit, inventory=site.inventory
    )


async def run_server(site, name: str = "ann", profile: str = "one") -> str:
    """Start a server and return its session."""
    await start(site.users[name], profile=profile)
    return site.users[name].spawner.session_id


@contextlib.asynccontextmanager
async def running(loop: ReconcileLoop):
    """Run the loop beside the test."""
    task = asyncio.ensure_future(loop.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def mend_all(reconciler) -> list[Repair]:
    return [mended.repair for found in reconciler.compare() if (mended := reconciler.mend(found.session_id))]


async def test_when_all_agree_nothing_is_done(site, hub, reconciler, audit):
    session = await run_server(site)
    hub.known = [HubServer(ServerRef("ann"), session, pending=False)]
    assert (mend_all(reconciler), audit.latest()) == ([], ())


async def test_a_lost_running_server_is_handed_back_and_goes_on(site, hub, reconciler, audit):
    session = await run_server(site)
    assert mend_all(reconciler) == [Repair.ADOPT]
    assert hub.started == [session]
    assert next(iter(site.docker.by_id.values()))["State"]["Running"]
    assert mend_all(reconciler) == []
    (row,) = audit.latest()
    assert (row.actor, row.action, row.subject) == ("reconciler", "reconcile.adopt", "ann")


async def test_a_lost_server_that_the_hub_refuses_is_ended(site, hub, reconciler):
    await run_server(site)
    hub.refusal = HubRefused("no such user")
    assert mend_all(reconciler) == [Repair.UNDO]
    assert (site.docker.by_id, site.leases.open_leases()) == ({}, ())


async def test_a_broken_off_stop_is_finished_with_the_containers_own_end(site, hub, reconciler):
    session = await run_server(site)
    site.leases.mark_ending(session)
    container = next(iter(site.docker.by_id.values()))
    site.docker.end(container["Id"])
    container["State"]["FinishedAt"] = "2026-03-04T05:06:07.890123456Z"
    assert mend_all(reconciler) == [Repair.UNDO]
    assert (site.docker.by_id, site.leases.open_leases()) == ({}, ())
    assert kept_facts(site) == ("2026-03-04 05:06:07.890123", 1)


async def test_a_broken_off_start_is_not_billable(site, hub, reconciler):
    choice = site.desk.menu.choose({"profile": "one"}, frozenset())
    site.desk.acquire(ServerRef("ann"), choice, frozenset())
    assert mend_all(reconciler) == [Repair.UNDO]
    assert kept_facts(site) == (None, 0)


def kept_facts(site) -> tuple[str | None, int]:
    """The end of the only session, and whether it is billable."""
    with site.leases._engine.connect() as connection:
        return tuple(connection.execute(text("SELECT ended_at, billable FROM sessions")).one())


@pytest.mark.case(8)
async def test_a_container_without_a_lease_is_ended_and_audited_once(site, hub, reconciler, audit):
    session = await run_server(site)
    site.leases.release(session, "lost")
    assert mend_all(reconciler) == [Repair.REMOVE]
    assert site.docker.by_id == {}
    assert mend_all(reconciler) == []
    assert len(audit.latest()) == 1


async def test_containers_of_others_are_never_seen(site, hub, reconciler):
    site.docker.create_container("sha256:base", "other", labels={"org.nbgpu.deployment": "nbgpu-other0"})
    site.docker.create_container("sha256:base", "foreign", labels={})
    assert mend_all(reconciler) == []
    assert len(site.docker.by_id) == 2


async def test_a_container_of_ours_that_names_no_session_is_ended(site, reconciler):
    site.docker.create_container("sha256:base", "odd", labels={"org.nbgpu.deployment": PREFIX})
    async with running(ReconcileLoop(reconciler, period=3600)):
        await until(lambda: site.docker.by_id == {})


@pytest.mark.parametrize("who", ["hub", "engine"])
async def test_cant_ask_is_never_gone(site, hub, reconciler, who):
    await run_server(site)
    if who == "hub":
        hub.fault = HubUnavailable("no answer")
    else:
        site.docker.before = fail
    with pytest.raises((HubUnavailable, EngineUnavailable)):
        reconciler.compare()
    site.docker.before = lambda method: None
    assert (len(site.docker.by_id), len(site.leases.open_leases())) == (1, 1)


def fail(method: str) -> None:
    raise requests.ConnectionError("refused")


async def test_what_changed_since_the_comparison_is_not_mended(site, hub, reconciler):
    session = await run_server(site)
    (found,) = reconciler.compare()
    hub.known = [HubServer(ServerRef("ann"), session, pending=False)]
    assert reconciler.mend(found.session_id) is None


async def test_taking_up_a_server_keeps_its_container_lease_and_token(site):
    """What the hub does when the reconciler asks it to start a lost server."""
    session = await run_server(site)
    ann = site.users["ann"]
    before = ann.spawner
    ann.spawners.pop("")
    before.orm_spawner.server = None
    await start(ann, profile="one", image="base")
    after = ann.spawner
    assert after is not before
    assert (after.session_id, after.api_token) == (session, before.api_token)
    assert (len(site.docker.created), len(site.leases.open_leases())) == (1, 1)
    assert await after.poll() is None
    await ann.stop()
    assert (site.docker.by_id, site.leases.open_leases()) == ({}, ())


async def test_another_choice_replaces_the_lost_server(site):
    session = await run_server(site)
    ann = site.users["ann"]
    ann.spawners.pop("")
    await start(ann, profile="two")
    assert ann.spawner.session_id != session
    assert [lease.state for lease in site.leases.open_leases()] == [LeaseState.ACTIVE]


@pytest.mark.case(7)
async def test_a_doubtful_session_is_mended_as_soon_as_the_engine_answers(site, hub, reconciler):
    loop = ReconcileLoop(reconciler, period=3600)
    site.desk.doubt = loop.doubt
    session = await run_server(site)
    hub.known = [HubServer(ServerRef("ann"), session, pending=False)]
    async with running(loop):
        site.docker.before = fail
        with pytest.raises(EngineUnavailable):
            await site.users["ann"].spawner.stop()
        hub.known = []
        site.docker.before = lambda method: None
        await until(lambda: site.leases.open_leases() == ())
    assert site.docker.by_id == {}


async def test_the_loop_survives_a_surprise(site, hub, reconciler, monkeypatch):
    logged: list[str] = []
    monkeypatch.setattr("nbgpu.telemetry.reconciler.log.exception", lambda text, *args: logged.append(text % args))
    hub.fault = ZeroDivisionError("surprise")
    loop = ReconcileLoop(reconciler, period=3600)
    session = await run_server(site)
    async with running(loop):
        await until(lambda: logged)
        hub.fault = None
        await until(lambda: hub.started == [session])


@pytest.mark.case(31)
async def test_a_device_that_vanished_leaves_its_lease_after_two_looks(site, hub, reconciler, audit):
    """MIG instances are gone after a reboot; their lease must not hold the UUID for ever."""
    session = await run_server(site, profile="two")
    hub.known = [HubServer(ServerRef("ann"), session, pending=False)]
    devices, site.inventory.devices = site.inventory.devices, site.inventory.devices[:1]
    assert reconciler.drop_vanished() == ()
    site.inventory.devices = devices
    assert reconciler.drop_vanished() == (), "it came back: a glitch"
    site.inventory.devices = devices[:1]
    assert reconciler.drop_vanished() == ()
    assert reconciler.drop_vanished() == ((session, "GPU-1"),)
    (lease,) = site.leases.open_leases()
    assert lease.allocation.device_uuids == ("GPU-0",)
    assert reconciler.drop_vanished() == ()
    assert [row.action for row in audit.latest()] == ["lease.device_gone"]


async def test_a_driver_that_cant_be_asked_has_lost_nothing(site, hub, reconciler):
    await run_server(site)
    site.inventory.problem = "The NVIDIA driver does not answer."
    assert [reconciler.drop_vanished() for _ in range(3)] == [(), (), ()]
    assert len(site.leases.open_leases()[0].allocation.slots) == 1


async def test_while_a_device_is_faulty_none_is_taken_for_vanished(site, hub, reconciler):
    """A new process may know a lost GPU by another name: its UUID then seems to be gone."""
    await run_server(site, profile="two")
    site.inventory.devices = (
        site.inventory.devices[0],
        dataclasses.replace(site.inventory.devices[1], uuid="GPU-lost-1", problem="The GPU is lost."),
    )
    assert [reconciler.drop_vanished() for _ in range(3)] == [(), (), ()]


async def test_each_repair_looks_at_its_own_session_alone(site, hub, reconciler, monkeypatch):
    """After a crash all sessions are found at once: to list everything for each would take hours at a large site."""
    for name in ("ann", "bob", "cid", "dee"):
        site.leases.release(await run_server(site, name, "cpu"), "lost")
    for name in ("eve", "fay"):
        site.leases.mark_ending(await run_server(site, name, "cpu"))
    listed: list[str] = []
    monkeypatch.setattr(hub, "servers", lambda: listed.append("hub") or ())
    asked = site.docker.containers
    monkeypatch.setattr(
        site.docker, "containers", lambda **kwargs: listed.append(len(kwargs["filters"]["label"])) or asked(**kwargs)
    )
    assert sorted(mend_all(reconciler)) == [Repair.REMOVE] * 4 + [Repair.UNDO] * 2
    assert listed.count("hub") <= 1 + 2  # the comparison, and FakeHub.find for the two that have a lease
    assert (listed.count(1), listed.count(2)) == (1, 6)
