"""Starting `dockerd` by hand, where no service manager does; also after one that was killed."""

import os
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nbgpu.core.errors import SetupError
from nbgpu.machine.report import Detail

START_SECONDS = 60.0
DYING_SECONDS = 2.0
TAIL = 20  # lines of the log in an error


@dataclass(frozen=True, slots=True)
class DaemonPlan:
    """Where a dockerd keeps its things; the defaults are dockerd's own."""

    log: Path = Path("/var/log/nbgpu-dockerd.log")
    pid_file: Path = Path("/var/run/docker.pid")
    exec_root: Path = Path("/var/run/docker")
    system_containerd: Path = Path("/run/containerd/containerd.sock")  # dockerd uses it when it exists
    arguments: tuple[str, ...] = ()
    as_root: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))


def clear_leavings(plan: DaemonPlan) -> list[str]:
    """Remove what a killed dockerd or containerd left and a new one stumbles over; return what was removed.

    A pid file counts as left when its process is gone or is another program (pids are reused), a socket when nobody
    answers on it. What belongs to a running one stays.
    """
    containerd = plan.exec_root / "containerd" / "containerd.pid"
    if not _runs(plan.pid_file, "dockerd"):
        _wait_for_end(containerd)
    files = ((plan.pid_file, "dockerd"), (containerd, "containerd"))
    stale = [path for path, program in files if path.exists() and not _runs(path, program)]
    sockets = (plan.system_containerd, plan.exec_root / "containerd" / "containerd.sock")
    stale += [path for path in sockets if path.exists() and not _answers(path)]
    for path in stale:
        subprocess.run([*plan.as_root, "rm", "-f", os.fspath(path)], check=False, capture_output=True)
    return [os.fspath(path) for path in stale]


def start_dockerd(plan: DaemonPlan, answers: Callable[[], bool], report: Detail) -> int:
    """Start dockerd on its own, wait until it answers, return its pid. SetupError has the log's last lines.

    It runs in a session of its own: the hub's Ctrl-C does not reach it, and it outlives the set-up.
    """
    for path in clear_leavings(plan):
        report(f"removed {path}, left by an engine that was killed")
    process = _spawn(plan)
    deadline = time.monotonic() + START_SECONDS
    while not answers():
        if process.poll() is not None:
            raise SetupError(f"dockerd ended with status {process.returncode}. {_log_tail(plan.log)}")
        if time.monotonic() > deadline:
            subprocess.run([*plan.as_root, "kill", str(process.pid)], check=False, capture_output=True)
            raise SetupError(f"dockerd did not answer within {START_SECONDS:.0f} s. {_log_tail(plan.log)}")
        report(f"waiting for dockerd (log: {plan.log})")
        time.sleep(0.2)
    process.returncode = 0  # it is meant to outlive us: keeps Popen from warning about a running child
    return process.pid


def _spawn(plan: DaemonPlan) -> subprocess.Popen[bytes]:
    try:
        with plan.log.open("ab") as log:
            return subprocess.Popen(
                [*plan.as_root, "dockerd", "--log-level=warn", *plan.arguments],
                env=plan.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
    except OSError as error:
        raise SetupError(f"dockerd can't be started: {error}") from error


def _log_tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-TAIL:]
    return f"The end of {log}:\n" + "\n".join(f"    {line}" for line in lines)


def _wait_for_end(containerd: Path) -> None:
    """Give the containerd of a killed dockerd, which the kernel ends with it, the moment that takes."""
    deadline = time.monotonic() + DYING_SECONDS
    while _runs(containerd, "containerd") and time.monotonic() < deadline:
        time.sleep(0.05)


def _runs(pid_file: Path, program: str) -> bool:
    """Whether the process is alive and is that program. One that ended and was never reaped does not count."""
    try:
        status = Path(f"/proc/{int(pid_file.read_text())}/status").read_text()
    except (OSError, ValueError):
        return False
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return fields["Name"] == program and not fields["State"].startswith(("Z", "X"))


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(2)
        try:
            client.connect(os.fspath(path))
        except PermissionError:
            return True  # not ours to judge
        except OSError:
            return False
        return True
