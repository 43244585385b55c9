"""Starts that are cancelled, fail, time out or die, and engines that don't answer: nothing is left, nothing is lost."""

import asyncio
import threading

import pytest
import requests

from nbgpu.core.errors import EngineUnavailable, StoreError
from support.fake_docker import answer
from support.site import until
from support.users import start

CALLS = ("inspect_container", "create_volume", "create_container", "start")


def left(site) -> tuple[int, int]:
    """How many leases and containers there are."""
    return len(site.leases.open_leases()), len(site.docker.by_id)


class Gate:
    """Holds the engine inside one method until it is opened."""

    def __init__(self, method: str) -> None:
        self.method, self.entered, self.open = method, threading.Event(), threading.Event()

    def __call__(self, method: str) -> None:
        if method == self.method:
            self.entered.set()
            assert self.open.wait(10)


@pytest.mark.case(10)
@pytest.mark.parametrize("call", CALLS)
async def test_a_start_cancelled_inside_any_call_undoes_itself(site, call):
    ann = site.users["ann"]
    site.docker.before = gate = Gate(call)
    task = asyncio.ensure_future(start(ann, profile="one"))
    await until(gate.entered.is_set)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled(), "the hub's Stop button must not wait for the engine"
    stop = asyncio.ensure_future(ann.stop())
    gate.open.set()
    await stop
    assert left(site) == (0, 0)
    await start(ann, profile="one")
    assert left(site) == (1, 1)


@pytest.mark.parametrize("step", ["admit", "find_open", "acquire", "home_volume", "activate"])
async def test_a_start_cancelled_inside_any_step_of_the_desk_undoes_itself(site, monkeypatch, step):
    entered, go_on = threading.Event(), threading.Event()
    method = getattr(site.desk, step)

    def hold(*args):
        entered.set()
        assert go_on.wait(10)
        return method(*args)

    monkeypatch.setattr(site.desk, step, hold)
    ann = site.users["ann"]
    task = asyncio.ensure_future(start(ann, profile="one"))
    await until(entered.is_set)
    task.cancel()
    await asyncio.wait([task])
    stop = asyncio.ensure_future(ann.stop())
    go_on.set()
    await stop
    assert left(site) == (0, 0)


async def test_a_start_cancelled_while_the_server_boots_undoes_itself(site):
    site.docker.serve = False
    ann = site.users["ann"]
    task = asyncio.ensure_future(start(ann, profile="one"))
    await until(lambda: site.docker.created and left(site) == (1, 1))
    task.cancel()
    await asyncio.wait([task])
    await ann.stop()
    assert left(site) == (0, 0)


@pytest.mark.case(10)
async def test_cancelling_twice_is_harmless(site):
    site.docker.serve = False
    ann = site.users["ann"]
    task = asyncio.ensure_future(start(ann, profile="one"))
    await until(lambda: left(site) == (1, 1))
    task.cancel()
    task.cancel()
    await asyncio.wait([task])
    await asyncio.gather(ann.stop(), ann.spawner.poll())
    assert left(site) == (0, 0)


async def test_a_server_that_never_answers_is_ended_and_says_so(make_site):
    site = make_site(launch_timeout=1)
    site.docker.serve = False
    with pytest.raises(Exception, match="did not answer within 1 s and was ended") as error:
        await start(site.users["ann"], profile="one")
    assert "did not answer" in error.value.jupyterhub_message
    assert left(site) == (0, 0)


@pytest.mark.parametrize(
    ("death", "sentence"),
    [
        ({"exit_code": 3, "logs": b"boot\nModuleNotFoundError: No module named 'jupyterhub'\n"}, "exit code 3"),
        ({"exit_code": 3, "logs": b"boot\nModuleNotFoundError: No module named 'jupyterhub'\n"}, "ModuleNotFoundError"),
        ({"exit_code": 137, "oom": True}, "ran out of memory"),
    ],
)
async def test_a_container_that_dies_at_once_says_why_with_its_last_words(site, death, sentence):
    site.docker.serve = False
    task = asyncio.ensure_future(start(site.users["ann"], profile="one"))
    await until(lambda: any(each["State"]["Running"] for each in site.docker.by_id.values()))
    site.docker.end(next(iter(site.docker.by_id)), **death)
    with pytest.raises(Exception, match=sentence):
        await task
    assert left(site) == (0, 0)


async def test_last_words_are_cut_and_printable(site):
    site.docker.serve = False
    task = asyncio.ensure_future(start(site.users["ann"], profile="one"))
    await until(lambda: any(each["State"]["Running"] for each in site.docker.by_id.values()))
    site.docker.end(next(iter(site.docker.by_id)), logs=b"\x1b[31m\xff\x00" + b"x" * 100_000)
    with pytest.raises(Exception, match="Last log lines") as error:
        await task
    assert len(error.value.jupyterhub_message) < 1000
    assert error.value.jupyterhub_message.replace("\n", "").isprintable()


@pytest.mark.case(9)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (answer(500, "server error"), "server error"),
        (requests.ConnectionError("refused"), "Docker does not answer"),
        (requests.ReadTimeout("slow"), "Docker does not answer"),
    ],
)
async def test_an_engine_that_fails_once_in_a_start_leaves_nothing(site, call, fault, sentence):
    faults = [fault]

    def fail_once(method: str) -> None:
        if method == call and faults:
            raise faults.pop()

    site.docker.before = fail_once
    with pytest.raises(Exception, match=sentence):
        await start(site.users["ann"], profile="one")
    assert left(site) == (0, 0)
    await start(site.users["ann"], profile="one")


async def test_no_toolkit_is_said_in_plain_words(site):
    def fail(method: str) -> None:
        if method == "start":
            raise answer(500, 'could not select device driver "" with capabilities: [[gpu]]')

    site.docker.before = fail
    with pytest.raises(Exception, match="Install nvidia-container-toolkit"):
        await start(site.users["ann"], profile="one")
    assert left(site) == (0, 0)


@pytest.mark.parametrize("fault", [answer(500, "oops"), requests.ConnectionError("refused"), OSError("no socket")])
async def test_cant_ask_is_never_gone(site, fault):
    ann = site.users["ann"]
    await start(ann, profile="one")

    def fail(method: str) -> None:
        raise fault

    site.docker.before = fail
    assert await ann.spawner.poll() is None
    with pytest.raises(EngineUnavailable):
        await ann.spawner.find_end()
    site.docker.before = lambda method: None
    assert left(site) == (1, 1)
    assert await ann.spawner.poll() is None


async def test_a_server_that_died_gives_its_devices_back_at_the_next_poll(site):
    ann = site.users["ann"]
    await start(ann, profile="two")
    site.docker.end(next(iter(site.docker.by_id)), exit_code=137, oom=True)
    assert "ran out of memory" in await ann.spawner.poll()
    assert left(site) == (0, 0)
    await start(ann, profile="two")


async def test_a_container_that_somebody_removed_gives_its_devices_back(site):
    ann = site.users["ann"]
    await start(ann, profile="two")
    site.docker.remove_container("nbgpu-test00-ann", force=True)
    assert await ann.spawner.poll() == "The container is gone."
    assert left(site) == (0, 0)


@pytest.mark.case(7)
async def test_a_stop_that_fails_keeps_the_lease_and_works_the_second_time(site):
    ann = site.users["ann"]
    await start(ann, profile="one")
    faults = [answer(500, "device or resource busy")]

    def fail_once(method: str) -> None:
        if method == "remove_container" and faults:
            raise faults.pop()

    site.docker.before = fail_once
    with pytest.raises(Exception, match="device or resource busy"):
        await ann.spawner.stop()
    assert left(site) == (1, 1)
    await ann.spawner.stop()
    assert left(site) == (0, 0)


@pytest.mark.case(8)
async def test_stopped_means_gone(make_site, monkeypatch):
    """An engine that says it removed, while the container goes on, is not believed."""
    monkeypatch.setattr("nbgpu.spawner.docker_calls._GONE_TRIES", 3)
    site = make_site()
    ann = site.users["ann"]
    await start(ann, profile="one")
    monkeypatch.setattr(site.docker, "remove_container", lambda *_, **__: None)
    with pytest.raises(Exception, match="did not remove the container"):
        await ann.spawner.stop()
    assert left(site) == (1, 1)


@pytest.mark.case(9)
async def test_what_an_earlier_broken_life_left_is_removed(site):
    ann, bob = site.users["ann"], site.users["bob"]
    await start(ann, profile="two")
    ann.spawner.clear_state()  # as after the loss of the hub's database
    ann.spawners.pop("")
    old = next(iter(site.docker.by_id))
    await start(ann, profile="one")
    assert old not in site.docker.by_id
    assert left(site) == (1, 1)
    await start(bob, profile="one")


async def test_a_container_that_is_not_ours_is_refused_by_name_and_left_alone(site):
    site.docker.create_container("sha256:base", "nbgpu-test00-ann", labels={"org.nbgpu.deployment": "another"})
    with pytest.raises(Exception, match="not make has the name nbgpu-test00-ann"):
        await start(site.users["ann"], profile="one")
    assert left(site) == (0, 1)


@pytest.mark.case(15)
async def test_slow_calls_of_one_user_do_not_hold_up_another(site):
    site.docker.before = gate = Gate("create_container")
    slow = asyncio.ensure_future(start(site.users["ann"], profile="one"))
    await until(gate.entered.is_set)
    site.docker.before = lambda method: None
    await asyncio.wait_for(start(site.users["bob"], profile="one"), 5)
    gate.open.set()
    await slow


async def test_a_stop_ends_the_container_also_while_the_database_does_not_answer(site, monkeypatch):
    ann = site.users["ann"]
    await start(ann, profile="one")
    with monkeypatch.context() as patch:
        patch.setattr(site.desk, "mark_ending", refuse)
        patch.setattr(site.desk, "release", refuse)
        with pytest.raises(StoreError):
            await ann.spawner.stop()
    assert left(site) == (1, 0), "the lease is left to the reconciler, with no container to take up"


def refuse(*_args: object, **_more: object) -> None:
    raise StoreError("locked")


async def test_whoever_asks_second_for_a_dead_server_waits_until_it_is_cleared_up(site):
    ann = site.users["ann"]
    await start(ann, profile="one")
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def clear_up() -> None:
        entered.set()
        await go_on.wait()
        await ann.stop()

    spawner = ann.spawner
    spawner.add_poll_callback(clear_up)
    site.docker.end(spawner.object_id, exit_code=137)
    first = asyncio.ensure_future(spawner.poll_and_notify())
    await entered.wait()
    second = asyncio.ensure_future(spawner.poll_and_notify())
    done, _ = await asyncio.wait([second], timeout=0.2)
    assert not done, "a start that it allows would be stopped by the first one's clearing up"
    go_on.set()
    assert None not in await asyncio.gather(first, second)
    await start(ann, profile="one")
    assert left(site) == (1, 1)
