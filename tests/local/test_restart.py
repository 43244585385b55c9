"""What a hub that was restarted finds: its own servers, and never somebody else's process with a reused id."""

import json
import os
import subprocess

import pytest

from nbgpu.core.errors import EngineUnavailable
from nbgpu.spawner import local_processes
from nbgpu.spawner.local_processes import start_ticks
from support.users import start

NOTHING = (0, 0, [])


def after_restart(user):
    """Give the user a spawner made from the hub's database, as a hub that starts does."""
    user.spawners[""] = user._new_spawner("", orm_spawner=user.spawner.orm_spawner)
    return user.spawners[""]


async def test_a_running_server_is_found_and_can_be_stopped(local):
    ann = local.users["ann"]
    await start(ann, profile="two")
    session = ann.spawner.session_id
    spawner = after_restart(ann)
    assert (spawner.session_id, await spawner.poll()) == (session, None)
    await ann.stop()
    assert local.left() == NOTHING


async def test_how_a_server_ended_while_no_hub_ran_is_told(make_local):
    local = make_local()
    ann = local.users["ann"]
    await start(ann, profile="two")
    keeper = local.record("ann")["pid"]
    for pid in local.processes():
        if pid != keeper:
            os.kill(pid, 11)
    while start_ticks(keeper) is not None:
        pass
    assert "signal 11" in await after_restart(ann).poll()
    assert local.left() == NOTHING


@pytest.fixture
def stranger():
    """A process that is not ours."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("same_start", [False, True])
async def test_a_reused_process_id_is_not_taken_for_ours(local, stranger, same_start):
    ann = local.users["ann"]
    await start(ann, profile="two")
    record = local.record("ann")
    spawner = after_restart(ann)
    # The record now points at another process; even one that started in the same tick is not ours.
    ticks = start_ticks(stranger.pid) if same_start else record["ticks"]
    (local.folder / "ann.json").write_text(json.dumps(record | {"pid": stranger.pid, "ticks": ticks}))
    assert "killed from outside" in await spawner.poll()
    assert stranger.poll() is None, "a stranger's process was ended"
    assert local.left() == NOTHING


async def test_another_deployments_sessions_are_never_seen(make_local):
    one, two = make_local(), make_local()
    await start(one.users["ann"])
    assert two.sessions.processes() == {}
    assert two.sessions.containers() == ()
    two.sessions.end(one.users["ann"].spawner.session_id)
    assert await one.users["ann"].spawner.poll() is None


async def test_a_server_that_the_hub_lost_is_taken_up_with_its_token(local):
    ann = local.users["ann"]
    await start(ann, profile="one")
    before, pids = ann.spawner, set(local.processes())
    url, token, session = before.server.url, before.api_token, before.session_id
    ann.spawners.pop("")  # as after the loss of the hub's database
    ann.spawner.load_state({})
    ann.spawner.api_token = "another"
    await start(ann, profile="one")
    assert (ann.spawner.server.url, ann.spawner.api_token, ann.spawner.session_id) == (url, token, session)
    assert set(local.processes()) == pids
    await ann.stop()
    assert local.left() == NOTHING


async def test_what_an_earlier_life_left_is_ended(local):
    """Another flavor is asked for, so that the lost server can't be taken up; its record is gone as well."""
    ann = local.users["ann"]
    await start(ann, profile="two")
    old = local.processes()
    ann.spawners.pop("")
    ann.spawner.load_state({})
    (local.folder / "ann.json").unlink()
    await start(ann, profile="one")
    assert not set(old) & set(local.processes())
    assert len(local.leases) == 1


async def test_a_system_that_hides_its_processes_is_not_taken_for_empty(local, monkeypatch, tmp_path):
    ann = local.users["ann"]
    await start(ann, profile="one")
    monkeypatch.setattr(local_processes, "PROC", tmp_path / "none")
    with pytest.raises(EngineUnavailable, match="can't list its processes"):
        local.sessions.containers()
    assert await ann.spawner.poll() is None
    with pytest.raises(EngineUnavailable, match="can't list its processes"):
        await ann.spawner.stop()
    assert len(local.leases) == 1
    monkeypatch.undo()
    await ann.spawner.stop()
    assert local.left() == NOTHING
