"""Two hundred random rounds of forty users on an engine that fails now and then, the real reconciler at work.

Faults, crashes, cancels and time limits at random: no device is ever in two containers that may not share it, no
notebook is ended that its user did not end, and when the engine is well again nothing is left.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter

import pytest
import requests
from jupyterhub.spawner import SpawnException
from tornado import web

from nbgpu.core.errors import HubUnavailable
from nbgpu.core.leases import ServerRef
from nbgpu.core.reconcile import HubServer
from nbgpu.spawner import docker_calls
from nbgpu.spawner.fleet import DockerFleet
from nbgpu.store import SqlAuditLog
from nbgpu.telemetry.reconciler import ReconcileLoop, Reconciler
from support.fake_docker import FakeDockerClient, answer
from support.site import PREFIX, Site, build_site, until
from support.users import start

ROUNDS, USERS, AT_ONCE, GPUS = 200, 40, 10, 8
FLAVORS = ("cpu", "one", "two", "shared", "shared", "nope")
CHANGES = ("create_volume", "create_container", "start", "stop", "remove_container")
SESSION = "org.nbgpu.session"


class FlakyDocker(FakeDockerClient):
    """Fails at random while `is_ill`; notes what must never happen."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.is_ill = True
        self.wrongs: list[str] = []
        self.faults: Counter[str] = Counter()
        self.in_use: set[str] = set()  # sessions whose user has been told that they run, and did not end them
        self.before = self._fail_before

    def start(self, container: str) -> None:
        super().start(container)
        with self._lock:
            self._check_devices(self._find(container))
        self._lose_answer("start")

    def create_container(self, image: str, name: str, **kwargs: object) -> dict[str, object]:
        created = super().create_container(image, name, **kwargs)
        self._lose_answer("create_container")
        return created

    def remove_container(self, container: str, force: bool = False, v: bool = False) -> None:
        self._check_end(container)
        super().remove_container(container, force, v)
        self._lose_answer("remove_container")

    def stop(self, container: str, timeout: int = 10) -> None:
        self._check_end(container)
        super().stop(container, timeout)
        self._lose_answer("stop")

    def crash(self, container: str) -> None:
        """End a container as fate does."""
        self.in_use.discard(self._find(container)["Config"]["Labels"][SESSION])
        self.end(container, exit_code=137)

    # Faults

    def _fail_before(self, method: str) -> None:
        if not self.is_ill or self.chance.random() > 0.06:
            return
        kinds = ["500", "connection", "timeout", "slow"]
        kinds += ["409", "404"] if method in CHANGES else []  # about what is there, the engine does not lie
        kind = self.chance.choice(kinds)
        self.faults[kind] += 1
        if kind == "slow":
            time.sleep(0.1)
        else:
            raise {"connection": requests.ConnectionError("cut"), "timeout": requests.ReadTimeout("slow")}.get(
                kind
            ) or answer(int(kind) if kind.isdigit() else 500, "a fault for a test")

    def _lose_answer(self, method: str) -> None:
        """The call has had its effect, and nobody is told."""
        if self.is_ill and self.chance.random() < 0.04:
            self.faults["lost answer"] += 1
            raise requests.ReadTimeout("the answer is lost")

    # What must never happen

    def _check_end(self, container: str) -> None:
        with self._lock:
            found = next((each for each in self.by_id.values() if container in (each["Id"], each["Name"][1:])), None)
            if found and found["State"]["Running"] and found["Config"]["Labels"][SESSION] in self.in_use:
                self.wrongs.append(f"{found['Name']} was ended, and nobody asked for it")

    def _check_devices(self, started: dict[str, object]) -> None:
        running = [self._variables(each) for each in self.by_id.values() if each["State"]["Running"]]
        for device in self._variables(started)["NBGPU_DEVICES"].split(","):
            flavors = [each["NBGPU_FLAVOR"] for each in running if device in each["NBGPU_DEVICES"].split(",")]
            if device and ((len(flavors) > 1 and set(flavors) != {"shared"}) or len(flavors) > 4):
                self.wrongs.append(f"{device} is in containers of {flavors}")

    @staticmethod
    def _variables(container: dict[str, object]) -> dict[str, str]:
        return dict(each.split("=", 1) for each in container["Config"]["Env"])


class HubOfUsers:
    """The hub at the reconciler's port, as its API would show these users."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.loop = asyncio.get_running_loop()

    def servers(self) -> tuple[HubServer, ...]:
        return asyncio.run_coroutine_threadsafe(self._servers(), self.loop).result(20)

    async def _servers(self) -> tuple[HubServer, ...]:
        users = list(self.site.users._users.values())
        return tuple(
            HubServer(ServerRef(user.name, name), spawner.get_state().get("session_id"), bool(spawner.pending))
            for user in users
            for name, spawner in user.spawners.items()
            if spawner.active
        )

    def find(self, server: ServerRef) -> HubServer | None:
        return next((each for each in self.servers() if each.server == server), None)

    def start(self, lease) -> None:
        asyncio.run_coroutine_threadsafe(self._start(lease), self.loop).result(20)

    async def _start(self, lease) -> None:
        user = self.site.users[lease.server.username]
        if user.spawner.active:
            raise HubUnavailable("it is pending or runs")
        await start(user, lease.server.servername, profile=lease.flavor, image=lease.image)


class Rounds:
    """Users on one site, each at one thing at a time."""

    def __init__(self, site: Site, chance: random.Random) -> None:
        self.site, self.engine, self.chance = site, site.docker, chance
        self.done: Counter[str] = Counter()

    async def act(self, user) -> None:
        """Do one thing that a person, or fate, may do to a server."""
        if user.spawner.active:
            await self._end(user)
        else:
            await self._start(user)

    async def _start(self, user) -> None:
        self.engine.serve = self.chance.random() > 0.05
        work = asyncio.ensure_future(start(user, profile=self.chance.choice(FLAVORS)))
        if self.chance.random() < 0.25:
            await asyncio.sleep(self.chance.random() * 0.1)
            work.cancel()
        try:
            await work
        except (SpawnException, web.HTTPError):
            self.done["failed"] += 1
        except asyncio.CancelledError:
            self.done["cancelled"] += 1
            await self._stop(user)
        else:
            self.done["started"] += 1
            self.engine.in_use.add(user.spawner.session_id)

    async def _end(self, user) -> None:
        if self.chance.random() < 0.2:
            with contextlib.suppress(Exception):
                self.engine.crash(user.spawner.object_id)
                self.done["crashed"] += 1
            with contextlib.suppress(web.HTTPError, docker_calls.EngineError):
                if await user.spawner.poll() is None:
                    return  # the engine could not say: the next one to ask finds out
        await self._stop(user)

    async def _stop(self, user) -> None:
        self.engine.in_use.discard(user.spawner.session_id)
        try:
            await user.stop()
            self.done["stopped"] += 1
        except docker_calls.EngineError:
            self.done["stop failed"] += 1

    def check_slots(self) -> None:
        """No slot is in two leases, whole devices are in no shared one."""
        held = Counter(slot for lease in self.site.leases.open_leases() for slot in lease.allocation.slots)
        assert [slot for slot, count in held.items() if count > 1] == []
        cuts: dict[str, set[int]] = {}
        for slot in held:
            cuts.setdefault(slot.device_uuid, set()).add(slot.slots)
        assert [uuid for uuid, slots in cuts.items() if len(slots) > 1] == []


@contextlib.asynccontextmanager
async def reconciling(site: Site):
    """Run the real reconciler beside the users."""
    reconciler = Reconciler(
        leases=site.leases,
        fleet=DockerFleet(site.docker, PREFIX),
        hub=HubOfUsers(site),
        audit=SqlAuditLog(site.leases._engine),
        inventory=site.inventory,
    )
    loop = ReconcileLoop(reconciler, period=0.3)
    site.desk.doubt = loop.doubt
    task = asyncio.ensure_future(loop.run())
    yield
    task.cancel()
    await asyncio.wait([task], timeout=30)


@pytest.mark.case(7)
@pytest.mark.case(9)
@pytest.mark.case(28)
@pytest.mark.parametrize("seed", [1, 2])
async def test_two_hundred_rounds_on_a_flaky_engine(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(docker_calls, "_GONE_TRIES", 5)
    chance = random.Random(seed)
    engine = FlakyDocker(chance)
    engine.add_image("sha256:base")
    site = build_site(tmp_path, engine, gpus=GPUS, launch_timeout=1.5)
    rounds = Rounds(site, chance)
    users = [site.users[f"user-{number}"] for number in range(USERS)]
    async with reconciling(site):
        for _ in range(ROUNDS // AT_ONCE):
            await asyncio.gather(*(rounds.act(user) for user in chance.sample(users, AT_ONCE)))
            rounds.check_slots()
        engine.is_ill = False
        assert engine.wrongs == []
        for user in users:
            if user.spawner.active:
                await rounds._stop(user)
        await until(lambda: (site.leases.open_leases(), engine.by_id) == ((), {}), seconds=30)
    assert engine.wrongs == []
    assert min(rounds.done[what] for what in ("started", "failed", "cancelled", "crashed", "stopped")) > 0, rounds.done
    assert sum(engine.faults.values()) > 30, engine.faults
    site.close()
