"""A private dockerd beside the machine's own: the start, and what a killed one leaves."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from nbgpu.core.errors import SetupError
from nbgpu.machine.dockerd import DaemonPlan, _runs, clear_leavings, start_dockerd
from nbgpu.machine.engine import ask_engine

needs_dockerd = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("dockerd", path=f"{os.environ['PATH']}:/usr/sbin"),
    reason="starting a dockerd of its own needs root and dockerd",
)


def _plan(folder: Path, *arguments: str) -> DaemonPlan:
    return DaemonPlan(
        log=folder / "log",
        pid_file=folder / "pid",
        exec_root=folder / "x",
        system_containerd=folder / "none.sock",
        arguments=(
            f"--host=unix://{folder}/s",
            f"--pidfile={folder}/pid",
            f"--exec-root={folder}/x",
            f"--data-root={folder}/data",
            "--bridge=none",
            "--iptables=false",
            "--storage-driver=vfs",
            *arguments,
        ),
        # A network namespace of its own: a dockerd without a bridge deletes docker0, which is the machine's engine's.
        as_root=("unshare", "--net", "--"),
        environ={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"},
    )


def _end(pid: int, number: signal.Signals) -> None:
    """End a dockerd of this test, which is our child."""
    os.kill(pid, number)
    deadline = time.monotonic() + 20
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        assert time.monotonic() < deadline, "dockerd did not end"
        time.sleep(0.05)


@pytest.fixture
def folder():
    """A short path: sockets allow 107 characters. A containerd that outlived its dockerd is ended here."""
    path = Path(tempfile.mkdtemp(prefix="nbgpu-"))
    yield path
    containerd = path / "x/containerd/containerd.pid"
    if _runs(containerd, "containerd"):
        os.kill(int(containerd.read_text()), signal.SIGTERM)
    subprocess.run(["umount", path / "data"], check=False, capture_output=True)  # a killed dockerd leaves it mounted
    shutil.rmtree(path, ignore_errors=True)


@needs_dockerd
@pytest.mark.docker
def test_starts_and_starts_again_after_being_killed(folder, details):
    def answers() -> bool:
        return ask_engine({"DOCKER_HOST": f"unix://{folder}/s"}).version is not None

    had_bridge = Path("/sys/class/net/docker0").exists()
    plan = _plan(folder)
    first = start_dockerd(plan, answers, details.append)
    _end(first, signal.SIGKILL)
    (folder / "pid").write_text(str(os.getpid()))  # the id went to another process meanwhile
    assert not answers()
    second = start_dockerd(plan, answers, details.append)
    assert answers()
    assert f"removed {folder}/pid, left by an engine that was killed" in details
    _end(second, signal.SIGTERM)
    assert Path("/sys/class/net/docker0").exists() == had_bridge


@needs_dockerd
def test_one_that_dies_at_once_shows_its_log(folder, details):
    with pytest.raises(SetupError, match=r"(?s)ended with status \d+\. The end of .*no-such-flag"):
        start_dockerd(_plan(folder, "--no-such-flag"), lambda: False, details.append)


def test_without_dockerd_it_says_so(tmp_path, details):
    plan = DaemonPlan(log=tmp_path / "log", pid_file=tmp_path / "pid", exec_root=tmp_path, environ={"PATH": "/nowhere"})
    with pytest.raises(SetupError, match=r"dockerd can't be started"):
        start_dockerd(plan, lambda: False, details.append)


def test_only_what_nobody_uses_is_cleared(tmp_path):
    used, unused = tmp_path / "used.sock", tmp_path / "containerd" / "containerd.sock"
    unused.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as gone:
        server.bind(str(used))
        server.listen()
        gone.bind(str(unused))  # bound and never listening: nobody answers
        plan = DaemonPlan(pid_file=tmp_path / "pid", exec_root=tmp_path, system_containerd=used)
        plan.pid_file.write_text("not a number")
        assert clear_leavings(plan) == [str(plan.pid_file), str(unused)]
    assert used.exists()
    assert not unused.exists()
