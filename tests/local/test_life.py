"""Starts, stops and bad ends of servers that are processes, through the hub's own User.spawn and User.stop."""

import asyncio
import json
import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from nbgpu.core.errors import EngineUnavailable
from nbgpu.core.leases import LeaseState
from nbgpu.spawner.local import choose_cores, describe_end
from nbgpu.spawner.local_processes import PROC, read_environment, start_ticks
from support.site import until
from support.users import start

NOTHING = (0, 0, [])


def read_proc(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


async def test_a_start_leases_runs_and_answers(local):
    ann = local.users["ann"]
    await start(ann, profile="two", image="base")
    (lease,) = local.leases
    assert lease.state is LeaseState.ACTIVE
    assert abs((datetime.now(UTC) - lease.active_at).total_seconds()) < 10
    assert ann.spawner.server.url.startswith("http://127.0.0.1:")
    async with httpx.AsyncClient() as client:
        assert (await client.get(ann.spawner.server.url)).status_code == 200
    await ann.stop()
    assert local.left() == NOTHING


async def test_the_environment_is_the_leases_and_no_more_of_the_hubs(local, monkeypatch):
    monkeypatch.setenv("CONFIGPROXY_AUTH_TOKEN", "secret of the hub")
    monkeypatch.setenv("NBGPU_DATA", "/hub")
    ann = local.users["ann"]
    await start(ann, profile="two")
    seen = read_environment(local.record("ann")["pid"])
    assert seen["NVIDIA_VISIBLE_DEVICES"] == seen["CUDA_VISIBLE_DEVICES"] == "GPU-0,GPU-1"
    assert seen["NBGPU_SESSION_ID"] == ann.spawner.session_id
    assert seen["OMP_NUM_THREADS"] == "2"
    assert seen["HOME"] == str(local.homes / f"{local.prefix}-home-ann")
    assert not {"CONFIGPROXY_AUTH_TOKEN", "NBGPU_DATA", "PYTHONPATH", "VIRTUAL_ENV"} & set(seen)


async def test_a_cpu_server_is_told_of_no_device(make_local):
    local = make_local(environment={"NVIDIA_VISIBLE_DEVICES": "all", "CUDA_VISIBLE_DEVICES": "0"})
    await start(local.users["ann"], profile="cpu")
    seen = read_environment(local.record("ann")["pid"])
    assert (seen["NVIDIA_VISIBLE_DEVICES"], seen["CUDA_VISIBLE_DEVICES"]) == ("void", "")


async def test_only_this_account_can_read_homes_records_and_logs(local):
    await start(local.users["ann"])
    home = local.homes / f"{local.prefix}-home-ann"
    assert [mode(path) for path in (home, local.folder)] == ["0o700"] * 2
    assert [mode(local.folder / name) for name in ("ann.json", "ann.log")] == ["0o600"] * 2
    token = local.users["ann"].spawner.api_token
    command_lines = [read_proc(pid, "cmdline") for pid in local.processes()]
    assert token not in "".join([*command_lines, (local.folder / "ann.json").read_text()])


async def test_the_server_gets_its_cores_and_gives_way_to_the_hub(local):
    await start(local.users["ann"], profile="cpu")
    pid = local.record("ann")["pid"]
    assert len(os.sched_getaffinity(pid)) == min(2, len(os.sched_getaffinity(0)))
    assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
    assert int(read_proc(pid, "oom_score_adj")) > 0


@pytest.mark.parametrize(("wanted", "count"), [(0.5, 1), (1, 1), (1.5, 2), (10_000, None)])
def test_cores_are_of_those_that_we_may_use(wanted, count):
    usable = os.sched_getaffinity(0)
    assert len(choose_cores(wanted)) == min(count or len(usable), len(usable))
    assert set(choose_cores(wanted)) <= usable


async def test_named_servers_share_a_home_and_nothing_else(local):
    ann = local.users["ann"]
    await start(ann, profile="one")
    await start(ann, "lab", profile="one")
    records = [local.record(name) for name in ("ann", "ann--lab")]
    homes = {read_environment(record["pid"])["HOME"] for record in records}
    assert len(homes) == 1
    assert len({record["port"] for record in records}) == 2
    await ann.stop("")
    assert [lease.server.servername for lease in local.leases] == ["lab"]
    assert await ann.spawners["lab"].poll() is None
    await ann.stop("lab")
    assert local.left() == NOTHING


async def test_starts_at_one_time_get_ports_of_their_own(local):
    users = [local.users[name] for name in ("ann", "bob", "cid", "dee")]
    await asyncio.gather(*(start(user, profile="cpu") for user in users))
    assert len({local.record(user.name)["port"] for user in users}) == 4
    await asyncio.gather(*(user.stop() for user in users))
    assert local.left() == NOTHING


async def test_a_stop_ends_what_left_the_process_group(make_local):
    local = make_local("parent")
    ann = local.users["ann"]
    await start(ann)
    child = int((local.homes / f"{local.prefix}-home-ann" / "child").read_text())
    assert start_ticks(child) is not None
    await ann.stop()
    assert start_ticks(child) is None
    assert local.left() == NOTHING


async def test_a_server_that_will_not_end_is_killed_after_its_time(make_local):
    local = make_local("stubborn", stop_timeout=0.3)
    await start(local.users["ann"])
    before = time.monotonic()
    await local.users["ann"].stop()
    assert 0.3 < time.monotonic() - before < 3
    assert local.left() == NOTHING


async def test_a_server_that_closes_its_output_goes_on(make_local):
    local = make_local("closed")
    await start(local.users["ann"])
    assert await local.users["ann"].spawner.poll() is None
    await local.users["ann"].stop()
    assert local.left() == NOTHING


async def test_a_server_that_dies_at_once_says_why_with_its_last_words(make_local):
    local = make_local("die")
    with pytest.raises(Exception, match="exit code 3") as error:
        await start(local.users["ann"], profile="one")
    message = error.value.jupyterhub_message
    assert "Last log lines" in message
    assert len(message) < 1000
    assert message.replace("\n", "").isprintable()
    assert local.left() == NOTHING


async def test_a_command_that_does_not_exist_is_told(make_local):
    local = make_local(cmd=["/nowhere/jupyterhub-singleuser"])
    with pytest.raises(Exception, match="could not be started.*nowhere"):
        await start(local.users["ann"], profile="one")
    assert local.left() == NOTHING


async def test_a_home_that_cant_be_made_is_told(local):
    local.homes.write_text("in the way")
    with pytest.raises(Exception, match="home folder .* can't be made"):
        await start(local.users["ann"], profile="one")
    assert local.left() == NOTHING


async def test_a_server_that_never_answers_is_ended_and_says_so(make_local):
    local = make_local("mute", launch_timeout=1)
    with pytest.raises(Exception, match="did not answer within 1 s and was ended"):
        await start(local.users["ann"], profile="one")
    assert local.left() == NOTHING


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_a_server_that_is_killed_gives_its_devices_back_at_the_next_poll(local, number):
    ann = local.users["ann"]
    await start(ann, profile="two")
    keeper = local.record("ann")["pid"]
    (server,) = [pid for pid in local.processes() if pid != keeper]
    os.kill(server, number)
    await until(lambda: start_ticks(keeper) is None)
    end = await ann.spawner.poll()
    assert "was killed" in end or f"signal {int(number)}" in end
    assert "Last log lines: booting" in end
    assert local.left() == NOTHING


async def test_a_server_does_not_outlive_its_keeper(local):
    ann = local.users["ann"]
    await start(ann, profile="two")
    os.kill(local.record("ann")["pid"], signal.SIGKILL)
    await until(lambda: not local.processes())
    assert "killed from outside" in await ann.spawner.poll()
    assert local.left() == NOTHING


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, "exit code 0"), (3, "exit code 3"), (-9, "memory ran out"), (-11, "signal 11"), (None, "killed from outside")],
)
def test_an_end_is_described(code, text):
    assert text in describe_end(code)


CALLS = ("home_volume", "grant", "start", "activate")


@pytest.mark.parametrize("call", CALLS)
async def test_a_start_cancelled_at_any_moment_undoes_itself(make_local, monkeypatch, call):
    import threading

    local = make_local()
    entered, opened = threading.Event(), threading.Event()
    owner = type(local.sessions) if call == "start" else type(local.site.desk)
    original = getattr(owner, call)

    def held(*args, **kwargs):
        done = original(*args, **kwargs)
        entered.set()
        assert opened.wait(10)
        return done

    monkeypatch.setattr(owner, call, held)
    ann = local.users["ann"]
    task = asyncio.ensure_future(start(ann, profile="one"))
    await until(entered.is_set)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled(), "the hub's Stop button must not wait for the engine"
    stop = asyncio.ensure_future(ann.stop())
    opened.set()
    await stop
    assert local.left() == NOTHING
    monkeypatch.setattr(owner, call, original)
    await start(ann, profile="one")


async def test_a_start_cancelled_while_the_server_boots_undoes_itself(make_local):
    local = make_local("mute")
    ann = local.users["ann"]
    task = asyncio.ensure_future(start(ann, profile="one"))
    await until((local.homes / f"{local.prefix}-home-ann" / "mute").exists)
    task.cancel()
    await asyncio.wait([task])
    await ann.stop()
    assert local.left() == NOTHING


async def test_cant_ask_is_never_gone(local):
    """A record that can't be read says nothing about its server."""
    ann = local.users["ann"]
    await start(ann, profile="one")
    record = local.folder / "ann.json"
    text = record.read_text()
    record.write_text("{")
    assert await ann.spawner.poll() is None
    with pytest.raises(EngineUnavailable, match="can't be read"):
        await ann.spawner.find_end()
    with pytest.raises(EngineUnavailable, match="can't be read"):
        await ann.spawner.stop()
    assert len(local.leases) == 1
    record.write_text(json.dumps(json.loads(text)))
    await ann.stop()
    assert local.left() == NOTHING


async def test_a_home_is_deleted_with_what_a_program_locked(local):
    ann = local.users["ann"]
    await start(ann)
    await ann.stop()
    home = local.homes / f"{local.prefix}-home-ann"
    (home / "locked" / "inner").mkdir(parents=True)
    (home / "locked" / "inner" / "file").touch()
    (home / "way-out").symlink_to(local.folder)
    (home / "locked" / "inner").chmod(0)
    (home / "locked").chmod(0o500)
    for _ in range(2):
        await ann.spawner.remove_home(home.name)
    assert not home.exists()
    assert local.folder.exists()


async def test_ended_servers_leave_no_zombies(local):
    ann = local.users["ann"]
    await start(ann)
    pids = local.processes()
    await ann.stop()
    assert not {f"/proc/{pid}" for pid in pids} & set(map(str, PROC.iterdir()))


async def test_an_archived_home_stays_so_when_our_database_is_lost(local):
    ann = local.users["ann"]
    await start(ann)
    await ann.stop()
    await ann.spawner.delete_forever()
    with local.site.leases._engine.begin() as connection:
        connection.execute(text("DELETE FROM homes"))
    await start(ann)
    assert read_environment(local.record("ann")["pid"])["HOME"] == str(local.homes / f"{local.prefix}-home-ann-2")
