"""Forty random rounds on real Docker that fails now and then: afterwards leases, containers and the hub agree."""

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import docker
import httpx
import pytest

from e2e.running import agree, disagreement, until
from faults.engine_away import Fault

pytestmark = pytest.mark.docker
ROUNDS, AT_ONCE = 40, 4
USERS = ("x-ann", "x-bob", "x-cy", "x-di", "mute-x-ed", "x-flo")
FLAVORS = ("cpu", "mig-1g", "t4-shared", "t4-shared", "a100", "a100x2")
QUIET = ("/version", "/_ping")


class Flaky:
    """Chooses faults for calls that have an effect, or that ask about one container."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._lock = threading.Lock()
        self.done: Counter[str] = Counter()

    def __call__(self, method: str, path: str) -> Fault:
        with self._lock:
            if self._chance.random() > 0.12 or path.endswith(QUIET):
                return Fault()
            faults = {
                "500": Fault(status=500),
                "dropped": Fault(drop=True),
                "late": Fault(delay=1.0),
                "lost answer": Fault(drop_answer=True),
                "late and lost": Fault(delay=0.5, drop_answer=True),
            }
            if method != "GET" and "/create" not in path:
                faults["409"] = Fault(status=409)
            kind = self._chance.choice(list(faults))
            self.done[kind] += 1
            return faults[kind]


def take_a_turn(site, user, turn):
    """Do one thing to the user's server; return what came of it."""
    what, flavor, moment = turn
    running = site.server(user)
    if running is None and what == "cancel":
        with ThreadPoolExecutor(1) as pool:
            start = pool.submit(site.start_server, user, profile=flavor)
            time.sleep(moment)
            site.api.delete(f"/users/{user}/server")
            return f"cancelled {start.result(60).status_code}"
    if running is None:
        return f"started {site.start_server(user, profile=flavor).status_code}"
    if what == "kill" and (lease := site.lease(user)) is not None:
        for container in site.engine.containers.list(filters={"label": f"org.nbgpu.session={lease.session_id}"}):
            try:
                container.kill()
            except docker.errors.APIError:
                return "killed too late"
        return "killed"
    return f"stopped {site.api.delete(f'/users/{user}/server').status_code}"


def devices_twice(site):
    """Devices that are in two running containers, though not shared."""
    held = Counter()
    for container in site.engine.containers.list(filters={"label": f"org.nbgpu.deployment={site.prefix}"}):
        variables = dict(each.split("=", 1) for each in container.attrs["Config"]["Env"])
        if variables["NBGPU_FLAVOR"] != "t4-shared":
            held.update(filter(None, variables["NBGPU_DEVICES"].split(",")))
    return [device for device, count in held.items() if count > 1]


@pytest.mark.case(9)
@pytest.mark.case(28)
def test_forty_rounds_on_a_flaky_docker(site, engine):
    chance = random.Random(20261201)
    for user in USERS:
        site.add_user(user)
    flaky = Flaky(chance)
    done = Counter()
    engine.choose = flaky
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in range(ROUNDS // AT_ONCE):
                users = chance.sample(USERS, AT_ONCE)
                turns = [
                    (chance.choice(["go", "go", "cancel", "kill"]), chance.choice(FLAVORS), chance.random() * 3)
                    for _ in users
                ]
                done.update(pool.map(lambda turn: take_a_turn(site, *turn), zip(users, turns, strict=True)))
                assert devices_twice(site) == []
                slots = [slot for lease in site.leases() for slot in lease.allocation.slots]
                assert len(slots) == len(set(slots))
    finally:
        engine.choose = lambda method, path: Fault()
    agree(site, seconds=75)
    assert devices_twice(site) == []
    for user in USERS:
        if (model := site.server(user)) is not None:
            assert model["ready"]
            if site.container(user).status == "running":
                assert site.notebook(user, "api/status").status_code == httpx.codes.OK
            site.stop_server(user)
    until(lambda: site.containers() == [], seconds=75, why="containers are left")
    assert site.leases() == ()
    assert disagreement(site) == ""
    assert sum(flaky.done.values()) > 20, flaky.done
    assert done["started 201"] + done["started 202"] > 3, done
