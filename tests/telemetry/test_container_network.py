"""Network of containers on real Docker: what one fetches from another shows for both, as Docker counts it."""

import secrets
from collections.abc import Iterator
from typing import Any

import docker
import pytest

from nbgpu.core.reconcile import ContainerFact
from nbgpu.images.built import find_image_id
from nbgpu.telemetry.cgroups import CgroupMeters
from nbgpu.telemetry.known_containers import KnownContainers
from nbgpu.wiring.sampling import read_stats

pytestmark = pytest.mark.docker

MIB = 2**20
SERVE = "head -c 8M /dev/zero > /tmp/big; cd /tmp; exec python3 -m http.server 8000"
FETCH = """
import sys, time, urllib.request
for _ in range(100):
    try:
        sys.exit(len(urllib.request.urlopen(sys.argv[1]).read()) != 8 * 2**20)
    except OSError:
        time.sleep(0.1)
"""


@pytest.fixture
def pair() -> Iterator[tuple[Any, Any]]:
    """Two containers: one serves a file of 8 MiB, the other waits."""
    engine = docker.from_env()
    image = find_image_id(engine, "base")
    assert image, "the base image is missing: nbgpu images build base"
    made: list[Any] = []
    try:
        for command in (["sh", "-c", SERVE], ["sleep", "600"]):
            name = f"nbgpu-network-{secrets.token_hex(4)}"
            made.append(engine.containers.run(image, command, name=name, detach=True, init=True))
        yield made[0], made[1]
    finally:
        for container in made:
            container.remove(force=True, v=True)
        engine.close()


class Two:
    """The engine's containers, each of a session named as its role."""

    def __init__(self, pair: tuple[Any, Any]) -> None:
        self._facts = tuple(
            ContainerFact(each.id, role, running=True) for role, each in zip(("serves", "fetches"), pair, strict=True)
        )

    def containers(self) -> tuple[ContainerFact, ...]:
        return self._facts


def test_what_a_container_fetches_is_counted_for_both(pair):
    server, client = pair
    for each in pair:
        each.reload()
    pids = {each.id: each.attrs["State"]["Pid"] for each in pair}
    meters = CgroupMeters(KnownContainers(Two(pair)), find_pid=pids.get, ask_engine=lambda _: None)

    def counted() -> dict[str, int]:
        return {session: reading.network or 0 for session, reading in meters.read(["serves", "fetches"]).items()}

    before = counted()
    address = next(iter(server.attrs["NetworkSettings"]["Networks"].values()))["IPAddress"]
    done = client.exec_run(["python3", "-c", FETCH, f"http://{address}:8000/big"])
    assert done.exit_code == 0, done.output
    after = counted()
    for role in ("serves", "fetches"):
        assert 8 * MIB < after[role] - before[role] < 10 * MIB
    told = read_stats(client.stats(stream=False, one_shot=True)).network
    assert told is not None
    assert after["fetches"] <= told < after["fetches"] + MIB
