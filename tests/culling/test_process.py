"""The culler as a process: there is one of it, it ends with its hub, and it stops what is due without being asked."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.running import until
from nbgpu.wiring.culler import LOCK_FILE
from support.stub_hub import TOKEN, StubHub, session_of

COMMAND = [sys.executable, "-m", "nbgpu.wiring.culler"]


@pytest.fixture
def hub(stub, tmp_path) -> StubHub:
    hub: StubHub = stub(10, due={session_of(3)})
    data = tmp_path / "data"
    data.mkdir()
    (data / "service-port").write_text(f"{hub.port}\n")
    return hub


@pytest.fixture
def environment(hub, tmp_path) -> dict[str, str]:
    told = {"NBGPU_DATA": str(tmp_path / "data"), "JUPYTERHUB_API_TOKEN": TOKEN, "JUPYTERHUB_API_URL": hub.url}
    return {**os.environ, **told}


@pytest.fixture
def culler(environment) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([*COMMAND, "0"], env=environment, stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def test_it_stops_what_is_due_and_ends_when_told(hub, culler):
    until(lambda: hub.stops)
    assert [path for path, _ in hub.stops] == ["/users/user-00003/server"]
    culler.send_signal(signal.SIGINT)
    _, said = culler.communicate(timeout=10)
    assert culler.returncode == 0
    assert "Stopping user-00003/ (session session-00003), which is idle" in said
    assert "Traceback" not in said


def test_a_second_one_does_not_run(hub, culler, environment, tmp_path):
    until(lambda: hub.stops)
    code = "import nbgpu.wiring.culler as culler; culler.LOCK_SECONDS = 0; culler.main(['0'])"
    second = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert f"Another culler runs for {tmp_path / 'data'}." in second.stderr
    assert (tmp_path / "data" / LOCK_FILE).exists()


def test_it_ends_with_the_hub_that_started_it(hub, environment):
    """Also with one that was killed and can end nothing itself."""
    code = (
        "import os, subprocess, sys, time;"
        "print(subprocess.Popen([sys.executable, '-m', 'nbgpu.wiring.culler', str(os.getpid())]).pid, flush=True);"
        "time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    until(lambda: hub.stops)
    parent.kill()
    parent.communicate()
    until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split())
