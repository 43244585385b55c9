"""The service as a process: it answers, there is one of it, it is kept alive, and it ends with its hub."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from nbgpu.service.app import LONGEST_BODY, make_app, serve
from nbgpu.wiring.deployment import Deployment, open_deployment
from nbgpu.wiring.keep_service import keep_service, service_entry
from nbgpu.wiring.service import ensure_service_port, read_health, service_port, take_lock

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "nbgpu.wiring.service"]


def until(condition: Callable[[], Any], *, seconds: float = 30) -> Any:
    """Return the first truthy value of `condition`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return value


@pytest.fixture
def deployment(tmp_path) -> Deployment:
    """A deployment of the local engine, so that no Docker is needed."""
    found = open_deployment(tmp_path / "data")
    (found.data / "engine").write_text("local\n")
    return found


@pytest.fixture
def environment(deployment) -> dict[str, str]:
    return {**os.environ, "NBGPU_DATA": str(deployment.data), "NBGPU_CONFIG": str(ROOT / "nbgpu.toml")}


@pytest.fixture
def service(environment) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMAND, "0"], env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    yield process
    process.kill()
    process.communicate()


def health(deployment: Deployment) -> dict[str, Any]:
    return read_health(deployment) or {}


def test_it_answers_and_samples(deployment, service):
    found = until(lambda: (now := health(deployment)).get("status") == "ok" and now)
    assert set(found["loops"]) >= {"gpus", "servers", "usage", "minutes"}
    assert found["sampler"]["sampled_s_ago"] < 6
    url = f"http://127.0.0.1:{service_port(deployment)}/services/nbgpu/"
    for page in ("", "health"):
        assert set(httpx.get(url + page, trust_env=False).json()) == {"status"}, "strangers learn no more"
    assert httpx.get(url + "nothing", trust_env=False).status_code == 404


def test_it_answers_servers_at_an_address_of_their_own_as_soon_as_that_can_be_had(monkeypatch):
    monkeypatch.setattr("nbgpu.service.app.LISTEN_AGAIN", 0.05)

    async def asked() -> list[int]:
        loop, app = asyncio.get_running_loop(), make_app(lambda: {"status": "ok"}, "secret", lambda: None, None)
        with socket.socket() as theirs, socket.socket() as ours:
            theirs.bind(("127.0.0.2", 0))
            ours.bind(("127.0.0.1", 0))
            first, second = ours.getsockname(), theirs.getsockname()
        with socket.create_server(second):
            serving = loop.create_task(serve(first[1], app, for_servers=second))
            async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(retries=9), trust_env=False) as client:
                found = [(await client.get(f"http://127.0.0.1:{first[1]}/services/nbgpu/health")).status_code]
        async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(retries=9), trust_env=False) as client:
            found.append((await client.get(f"http://127.0.0.2:{second[1]}/services/nbgpu/health")).status_code)
        for address in (first, second):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"POST /services/nbgpu/health HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (LONGEST_BODY + 1))
            found.append(int((await reader.readline()).split()[1]))
            writer.close()
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
        return found

    assert asyncio.run(asked()) == [200, 200, 400, 400], "and both refuse what is too large"


def test_there_is_one_for_a_deployment(deployment, service, environment, monkeypatch):
    until(lambda: health(deployment))
    code = (
        "import nbgpu.wiring.service as service; service.LOCK_SECONDS = 0;"
        "take = service.take_lock; service.take_lock = lambda found: take(found, seconds=0); service.main(['0'])"
    )
    second = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert f"Another nbgpu service runs for {deployment.data}." in second.stderr
    assert health(deployment)


def test_told_to_end_it_writes_what_it_has_and_ends(deployment, service):
    until(lambda: health(deployment).get("status") == "ok")
    service.terminate()
    assert service.wait(10) == 0
    assert health(deployment) == {}
    with take_lock(deployment, seconds=0) as lock:
        assert lock is not None


def test_it_waits_for_a_database_that_is_away(deployment, service, environment):
    """Also at its begin: the database server may come up after the hub's machine."""
    service.kill()
    service.wait()
    database = deployment.data / "nbgpu.sqlite"
    for leftover in deployment.data.glob("nbgpu.sqlite*"):
        leftover.unlink()
    database.mkdir()
    process = subprocess.Popen([*COMMAND, "0"], env=environment, stderr=subprocess.DEVNULL)
    try:
        until(lambda: health(deployment).get("problem"))
        assert health(deployment)["status"] == "starting"
        database.rmdir()
        until(lambda: health(deployment).get("status") == "ok")
    finally:
        process.kill()
        process.wait()


def test_it_ends_with_the_hub_that_started_it(deployment, environment):
    """Also with one that was killed and can end nothing itself."""
    code = (
        "import os, subprocess, sys, time;"
        "print(subprocess.Popen([sys.executable, '-m', 'nbgpu.wiring.service', str(os.getpid())]).pid, flush=True);"
        "time.sleep(60)"
    )
    hub = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    assert hub.stdout is not None
    pid = int(hub.stdout.readline())
    until(lambda: health(deployment))
    hub.kill()
    hub.wait()
    hub.stdout.close()
    until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split())


async def test_one_that_is_killed_is_back_within_seconds(deployment, environment):
    task = asyncio.ensure_future(keep_service({**environment, "JUPYTERHUB_SERVICE_NAME": "nbgpu"}))
    pids: list[int] = []
    try:
        for _ in range(2):
            await asyncio.to_thread(until, lambda: health(deployment))
            pid = await asyncio.to_thread(until, lambda: _service_pid(deployment))
            assert pid not in pids
            pids.append(pid)
            os.kill(pid, signal.SIGKILL)
            await asyncio.to_thread(until, lambda: not health(deployment))
        await asyncio.to_thread(until, lambda: health(deployment), seconds=15)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await asyncio.to_thread(until, lambda: not health(deployment))


def _service_pid(deployment: Deployment) -> int | None:
    ours = f"NBGPU_DATA={deployment.data}".encode()
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if (
                folder.name.isdecimal()
                and b"nbgpu.wiring.service" in (folder / "cmdline").read_bytes()
                and ours in (folder / "environ").read_bytes()
            ):
                return int(folder.name)
    return None


async def test_one_that_dies_at_once_is_not_started_without_pause(tmp_path):
    counted = tmp_path / "starts"
    task = asyncio.ensure_future(keep_service({}, command=["sh", "-c", f"echo >> {counted}; exit 3"]))
    await asyncio.to_thread(until, lambda: counted.exists() and len(counted.read_text()) >= 2)
    began = time.monotonic()
    await asyncio.to_thread(until, lambda: len(counted.read_text()) >= 3)
    assert time.monotonic() - began > 0.5
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_a_port_that_somebody_else_has_taken_is_given_up(deployment):
    port = service_port(deployment)
    assert ensure_service_port(deployment) == port, "it is free"
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        lock = take_lock(deployment, seconds=0)
        assert lock is not None
        assert ensure_service_port(deployment) == port, "the service of the hub before has it still"
        lock.close()
        assert ensure_service_port(deployment) != port


def test_without_a_service_there_is_no_health(deployment):
    assert read_health(deployment) is None
    service_port(deployment)
    assert read_health(deployment) is None


def test_what_jupyterhub_is_told_has_no_command(deployment):
    """It would wait for it, end with it, and look after it too seldom."""
    entry = service_entry(deployment)
    assert "command" not in entry
    assert entry["url"] == f"http://127.0.0.1:{service_port(deployment)}"
    assert json.dumps(entry)
