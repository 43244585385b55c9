"""Idle servers on a real hub: work survives, a forgotten tab does not; warned, extended up to the ceiling, stopped."""

import json
import time
from datetime import datetime

import httpx
import pytest

from e2e.notebooks import Notebook
from e2e.running import until
from nbgpu.spawner.container import NOTICE_FILE

pytestmark = pytest.mark.docker
LIMIT = 30  # seconds: the idle limit of group "hasty" in conftest
STOPPED = 150  # seconds: boot, limit, extension, looks, and the stop


@pytest.mark.case(18)
@pytest.mark.case(19)
def test_work_survives_three_limits_a_forgotten_tab_does_not_and_an_idle_gpu_is_given_back(hub):
    """The servers live side by side: each waits for minutes."""
    users = [hub.add_user(name, "hasty") for name in ("hasty-busy", "hasty-tab", "hasty-extends")]
    mover = hub.add_user("mover", "movers")
    hub.started(mover, profile="t4-shared")
    hub.start_all([(user, "", {"profile": "mig-1g" if user == "hasty-busy" else "cpu"}) for user in users])
    busy, tab = (Notebook(hub.url, user, hub.token(user)) for user in users[:2])
    busy.run(busy.start_kernel(), "import time\ntime.sleep(3600)")
    began = time.monotonic()
    sessions = {user: hub.lease(user).session_id for user in users}
    with tab.open_tab(tab.start_kernel()):
        until(lambda: stop_of(hub, "hasty-extends"), seconds=STOPPED, why="no stop was decided")
        told = until(lambda: notice(hub, "hasty-extends"), why="no warning came")
        assert told["cause"] == "idle"
        assert "it is idle" in told["text"]
        given = extend(hub, "hasty-extends", sessions)
        assert given.status_code == 200, given.text
        assert given.json()["idle"]["extendable_s"] == 0
        refused = extend(hub, "hasty-extends", sessions)
        assert refused.status_code == 409
        assert "It can be extended by 0 s more" in refused.json()["detail"]
        until(lambda: hub.server("hasty-tab") is None, seconds=STOPPED, why="the tab keeps its server alive")
        assert hub.server("hasty-extends") is not None, "its extension was of no use"
        until(lambda: hub.server("hasty-extends") is None, seconds=STOPPED, why="the ceiling does not hold")
    moved = until(lambda: hub.lease(mover) if is_on_cpu(hub, mover) else None, seconds=STOPPED, why="it keeps its GPU")
    assert moved.allocation.device_uuids == ()
    assert hub.wait_ready(mover)["url"] == f"/user/{mover}/"
    until(lambda: time.monotonic() - began > 3 * LIMIT, seconds=STOPPED)
    assert hub.server("hasty-busy") is not None, "a running cell was killed"
    explained = hub.command("idle", "explain", "hasty-busy", "--config", str(hub.settings))
    assert "A cell is running." in explained
    ended = hub.command("idle", "explain", "hasty-tab", "--config", str(hub.settings))
    assert "It was stopped: it was idle since" in ended


def is_on_cpu(hub, user: str) -> bool:
    lease = hub.lease(user)
    return lease is not None and lease.flavor == "cpu"


def stop_of(hub, user: str) -> datetime | None:
    """When a user's server is to be stopped, as the hub's database has it: asking the server would be work for it."""
    lease = hub.lease(user)
    assert lease is not None, "it was stopped and not warned of"
    return lease.stop_at


def notice(hub, user: str) -> dict[str, str] | None:
    code, output = hub.container(user).exec_run(["cat", NOTICE_FILE])
    return json.loads(output) if code == 0 else None


def extend(hub, user: str, sessions: dict[str, str]) -> httpx.Response:
    return httpx.post(
        f"{hub.url}/services/nbgpu/api/v1/sessions/{sessions[user]}/extend",
        headers={"Authorization": f"token {hub.token(user)}"},
        json={},
        timeout=20,
    )
