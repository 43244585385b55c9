"""The fake engine and real Docker give the same answers to every call that we make."""

import secrets
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import docker
import pytest
from docker.errors import APIError

from nbgpu.images.built import find_image_id
from nbgpu.spawner.fleet import DockerFleet
from support.fake_docker import FakeDockerClient

LABELS = {"org.nbgpu.deployment": "nbgpu-contract"}


class Engine:
    """A client and the names of one test."""

    def __init__(self, client: Any, image: str, network: str) -> None:
        self.client, self.image, self.network = client, image, network
        self.name = f"nbgpu-contract-{secrets.token_hex(4)}"
        self.volume = f"{self.name}-home"

    def create(self, name: str | None = None, *, image: str | None = None, command: tuple[str, ...] = ()) -> str:
        host_config = self.client.create_host_config(
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            init=True,
            pids_limit=100,
            mem_limit=2**28,
            memswap_limit=2**28,
            shm_size=2**26,
            binds={self.volume: {"bind": "/home/nbgpu", "mode": "rw"}},
            network_mode=self.network,
        )
        created = self.client.create_container(
            image=image or self.image,
            name=name or self.name,
            command=list(command) or ["sleep", "60"],
            environment={"NVIDIA_VISIBLE_DEVICES": "void"},
            labels=LABELS,
            host_config=host_config,
        )
        return created["Id"]

    def clean(self) -> None:
        try:
            self.client.remove_container(self.name, force=True, v=True)
        except APIError as error:
            assert error.status_code == 404  # noqa: PT017 - most tests leave one to remove, some do not


@pytest.fixture(params=["fake", pytest.param("docker", marks=pytest.mark.docker)])
def engine(request) -> Iterator[Engine]:
    if request.param == "fake":
        client = FakeDockerClient()
        engine = Engine(client, client.add_image("sha256:base"), "net")
        yield engine
        engine.clean()
        client.close()
        return
    whole = docker.from_env()
    image = find_image_id(whole, "base")
    assert image, "the base image is missing: nbgpu images build base"
    engine = Engine(docker.APIClient(version="auto"), image, "bridge")
    yield engine
    engine.clean()
    volumes = [each["Name"] for each in engine.client.volumes()["Volumes"]]
    if engine.volume in volumes:
        engine.client.remove_volume(engine.volume)
    engine.client.close()
    whole.close()


def status_of(call: Any, *args: Any, **kwargs: Any) -> int:
    """The HTTP status of the engine's refusal."""
    with pytest.raises(APIError) as refusal:
        call(*args, **kwargs)
    return int(refusal.value.status_code)


def test_what_is_not_there_is_404(engine):
    client = engine.client
    for call in (client.inspect_container, client.start, client.stop, client.remove_container, client.logs):
        assert status_of(call, "nbgpu-contract-none") == 404
    assert status_of(client.inspect_image, "sha256:" + "0" * 64) == 404
    assert status_of(engine.create, image="sha256:" + "0" * 64) == 404


def test_a_created_container_is_as_asked_and_does_not_run(engine):
    container = engine.create()
    found = engine.client.inspect_container(engine.name)
    assert found["Id"] == container
    assert found["State"]["Running"] is False
    assert found["State"]["FinishedAt"] == "0001-01-01T00:00:00Z"
    assert found["Config"]["Labels"].items() >= LABELS.items()
    assert "NVIDIA_VISIBLE_DEVICES=void" in found["Config"]["Env"]
    host = found["HostConfig"]
    assert (host["CapDrop"], host["SecurityOpt"], host["Init"]) == (["ALL"], ["no-new-privileges"], True)
    assert (host["PidsLimit"], host["Memory"], host["MemorySwap"], host["ShmSize"]) == (100, 2**28, 2**28, 2**26)
    assert host["Binds"] == [f"{engine.volume}:/home/nbgpu:rw"]


def test_a_name_is_taken_once(engine):
    engine.create()
    assert status_of(engine.create) == 409


def test_a_started_container_runs_since_a_time_at_an_address(engine):
    container = engine.create()
    engine.client.start(container)
    found = engine.client.inspect_container(container)
    assert found["State"]["Running"] is True
    assert datetime.fromisoformat(found["State"]["StartedAt"]).utcoffset().total_seconds() == 0
    assert found["NetworkSettings"]["Networks"][engine.network]["IPAddress"]


def test_a_running_container_is_removed_by_force_only(engine):
    container = engine.create()
    engine.client.start(container)
    assert status_of(engine.client.remove_container, container) == 409
    engine.client.remove_container(container, force=True, v=True)
    assert status_of(engine.client.inspect_container, container) == 404


def test_a_stopped_container_is_still_there_and_says_how_it_ended(engine):
    container = engine.create()
    engine.client.start(container)
    engine.client.stop(container, timeout=1)
    state = engine.client.inspect_container(container)["State"]
    assert state["Running"] is False
    assert {"ExitCode", "OOMKilled", "Error"} <= set(state)
    assert datetime.fromisoformat(state["StartedAt"]) < datetime.fromisoformat(state["FinishedAt"])
    engine.client.stop(container, timeout=1)  # stopping twice is fine


def test_a_container_that_ends_by_itself_keeps_its_code_and_log(engine):
    container = engine.create(command=("sh", "-c", "echo one; echo two; exit 3"))
    engine.client.start(container)
    if isinstance(engine.client, FakeDockerClient):
        engine.client.end(container, exit_code=3, logs=b"one\ntwo\n")
    else:
        engine.client.wait(container, timeout=20)
    assert engine.client.inspect_container(container)["State"]["ExitCode"] == 3
    assert engine.client.logs(container, tail=1) == b"two\n"


def test_the_end_of_a_container_is_told_with_its_id(engine):
    container = engine.create(command=("sh", "-c", "exit 3"))
    since = int(time.time())
    told: list[tuple[str, bool]] = []
    ended = threading.Event()

    def listen() -> None:
        filters = {"type": "container", "event": "die", "label": "org.nbgpu.deployment=nbgpu-contract"}
        for event in engine.client.events(since=since, filters=filters, decode=True):
            told.append((event["id"], event["time"] >= since))
            if event["id"] == container:  # others ended in the same second
                ended.set()
                return

    listener = threading.Thread(target=listen)
    listener.start()
    engine.client.start(container)
    if isinstance(engine.client, FakeDockerClient):
        until_listened(engine.client)
        engine.client.end(container, exit_code=3)
    assert ended.wait(20)
    listener.join()
    assert told[-1] == (container, True)


def until_listened(client: FakeDockerClient) -> None:
    while not client._listeners:
        time.sleep(0.005)


def test_containers_are_listed_by_label_running_or_not(engine):
    container = engine.create()
    fleet = DockerFleet(engine.client, "nbgpu-contract")
    assert [(each.id, each.running) for each in fleet.containers()] == [(container, False)]
    engine.client.start(container)
    assert [(each.id, each.running) for each in fleet.containers()] == [(container, True)]
    assert DockerFleet(engine.client, "nbgpu-nobody").containers() == ()
    (fact,) = fleet.containers()
    assert fact.finished_at is None
    assert fleet.find("") == fact  # it names no session
    assert fleet.find("another") is None
    assert fleet.end(container) is not None
    assert fleet.end(container) is None
    assert fleet.containers() == ()


def test_making_a_volume_again_keeps_it(engine):
    first = engine.client.create_volume(engine.volume, labels=LABELS)
    again = engine.client.create_volume(engine.volume, labels=LABELS)
    assert first["Name"] == again["Name"] == engine.volume
    assert again["Labels"] == LABELS
    assert engine.client.inspect_volume(engine.volume)["Name"] == engine.volume
    assert status_of(engine.client.inspect_volume, f"{engine.volume}.none") == 404
