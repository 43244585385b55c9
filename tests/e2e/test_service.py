"""The `nbgpu` service of a running site: reached through the proxy, kept alive, and right about what servers use."""

import contextlib
import json
import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.running import until
from nbgpu.core.usage import SERVER
from nbgpu.nvml.simulator import SimulatedDriver
from nbgpu.store import open_database
from nbgpu.store.quarantine import SqlQuarantines
from nbgpu.store.usage import SqlUsage
from nbgpu.telemetry.container_probe import Sight, look_into
from nbgpu.wiring.deployment import open_deployment
from nbgpu.wiring.service import read_health

pytestmark = pytest.mark.docker

BUSY = "import time; end = time.process_time() + 6\nwhile time.process_time() < end: pass"


def health(hub) -> dict[str, Any]:
    return read_health(open_deployment(hub.data)) or {}


@pytest.fixture
def database(hub):
    engine = open_database(f"sqlite:///{hub.data / 'nbgpu.sqlite'}")
    yield engine
    engine.dispose()


def service_pid(hub) -> int | None:
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if (
                folder.name.isdecimal()
                and b"nbgpu.wiring.service" in (folder / "cmdline").read_bytes()
                and f"NBGPU_DATA={hub.data}".encode() in (folder / "environ").read_bytes()
            ):
                return int(folder.name)
    return None


def test_it_is_reached_through_the_proxy_and_is_back_soon_after_it_was_killed(hub):
    url = f"{hub.url}/services/nbgpu/health"
    until(lambda: httpx.get(url).json() == {"status": "ok"}, seconds=30)
    pid = service_pid(hub)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: service_pid(hub) not in (None, pid), seconds=10)
    until(lambda: health(hub).get("sampler", {}).get("stale") is False, seconds=20)
    assert httpx.get(f"{hub.url}/hub/health").status_code == httpx.codes.OK


def test_cpu_time_of_a_server_is_what_docker_counts(hub, database):
    hub.started(hub.add_user("cpu-user"), profile="cpu")
    lease = hub.lease("cpu-user")
    container = hub.container("cpu-user")

    def counted() -> int:
        return int(container.stats(stream=False, one_shot=True)["cpu_stats"]["cpu_usage"]["total_usage"]) // 1_000_000

    until(lambda: health(hub).get("loops", {}).get("servers", {}).get("succeeded_s_ago", 99) < 1, seconds=15)
    before = counted()
    container.exec_run(["python3", "-c", BUSY])
    spent = counted() - before
    assert spent > 5000
    usage = SqlUsage(database)

    def written() -> int:
        return usage.of_session(lease.session_id).get(SERVER, _Nothing).cpu_ms or 0

    until(lambda: written() >= spent * 0.9, seconds=80, why="the CPU time is not in the database")
    assert written() <= counted()
    assert usage.of_session(lease.session_id)[SERVER].ram_byte_ms


class _Nothing:
    cpu_ms = None


def test_a_gpu_that_is_lost_ends_its_charge_and_the_next_user_gets_another(hub, database):
    hub.started(hub.add_user("unlucky"), profile="a100")
    lease = hub.lease("unlucky")
    (uuid,) = lease.allocation.device_uuids
    until(lambda: health(hub).get("sampler", {}).get("stale") is False)
    driver = SimulatedDriver(hub.data / "simulator")
    time_of_fault = datetime.now(UTC)
    driver.set(uuid, **{"fault.*": "GPU_IS_LOST"})
    quarantines = SqlQuarantines(database)
    try:
        found = until(lambda: quarantines.open().get(uuid), seconds=10)
        assert quarantines.lost_devices() == {uuid}
        assert found.last_good_at is not None
        assert -6 < (found.last_good_at - time_of_fault).total_seconds() < 6
        hub.stop_server("unlucky")
        hub.started(hub.add_user("lucky"), profile="a100")
        assert hub.lease("lucky").allocation.device_uuids != (uuid,)
        listed = {row["uuid"]: row for row in json.loads(hub.command("gpus", "--json"))}
        assert listed[uuid]["quarantine"]["kind"] == "lost"
        assert listed[uuid]["sampled_s_ago"] < 6
    finally:
        driver.unset(uuid, "fault.*")
    assert "is leased again" in hub.command("gpus", "return", uuid)
    assert quarantines.open() == {}


@pytest.mark.case(25)
def test_a_container_tells_whether_it_still_has_its_gpus(hub):
    """As after a reload of systemd on the host: the driver is well, and the container's way to it is not."""
    hub.started(hub.add_user("gpu-user"), profile="a100")
    container = hub.container("gpu-user")
    assert look_into(hub.engine.api, container.id) is Sight.SEES
    begun = time.monotonic()
    assert look_into(hub.engine.api, container.id) is Sight.SEES
    assert time.monotonic() - begun < 5
    driver = SimulatedDriver(hub.data / "simulator")
    driver.set_driver(**{"fault.nvmlInit": "UNKNOWN"})
    try:
        assert look_into(hub.engine.api, container.id) is Sight.LOST
    finally:
        driver.set_driver(**{"fault.nvmlInit": None})
    container.pause()
    try:
        assert look_into(hub.engine.api, container.id) is Sight.UNKNOWN
    finally:
        container.unpause()
    hub.started(hub.add_user("cpu-only"), profile="cpu")
    assert look_into(hub.engine.api, hub.container("cpu-only").id) is Sight.UNKNOWN, "it has no driver to ask"
