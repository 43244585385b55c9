"""What people read when an engine fails: why a container ended, and refusals without the host's paths."""

import pytest

from nbgpu.spawner.docker import describe_end
from nbgpu.spawner.docker_calls import to_engine_error
from support.fake_docker import answer
from support.users import start


@pytest.mark.parametrize(
    ("code", "oom", "was_told", "end"),
    [
        (137, True, False, "ran out of memory"),
        (137, True, True, "exit code 137"),  # killed by us, after a kernel of it had run out of memory
        (137, False, False, "exit code 137"),
        (1, True, False, "exit code 1"),  # a kernel ran out of memory some time; the server ended otherwise
        (0, True, False, "exit code 0"),
    ],
)
def test_out_of_memory_is_said_of_a_server_that_was_killed_for_it(code, oom, was_told, end):
    state = {"Running": False, "ExitCode": code, "OOMKilled": oom, "Error": ""}
    assert end in describe_end(state, was_told=was_told)


async def test_a_server_whose_stop_was_broken_off_is_not_said_to_have_run_out_of_memory(site):
    ann = site.users["ann"]
    await start(ann, profile="one")

    def fail(method: str) -> None:
        if method == "remove_container":
            raise answer(500, "device or resource busy")

    site.docker.before = fail
    site.docker.end(ann.spawner.object_id, exit_code=137, oom=True)
    with pytest.raises(Exception, match="resource busy"):
        await ann.spawner.stop()
    assert "memory" not in await ann.spawner.find_end()


GONE = "is gone from the machine. Start again"


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ('invalid mount config for type "bind": bind source path does not exist: /srv/nbgpu/devices/GPU-1', GONE),
        ("nvidia-container-cli: device error: GPU-1: unknown device: unknown", GONE),
        ("mkdir /var/lib/docker/overlay2: no space left on device", "mkdir (a path of the host): no space left"),
        ("pull registry.example/team/image:tag denied", "pull registry.example/team/image:tag denied"),
    ],
)
def test_a_refusal_of_docker_shows_no_path_of_the_host(said, read):
    text = str(to_engine_error(answer(500, said)))
    assert read in text
    assert "/srv" not in text
    assert "/var" not in text


async def test_a_device_that_vanishes_between_lease_and_start_is_told_plainly(site, monkeypatch):
    def vanished(_uuids: object) -> None:
        raise KeyError("GPU-0")

    monkeypatch.setattr(site.desk._access, "grant", vanished, raising=True)
    with pytest.raises(Exception, match="GPU-0 is gone from the machine"):
        await start(site.users["ann"], profile="one")
    assert (site.leases.open_leases(), site.docker.by_id) == ((), {})
