"""The processes of one deployment: told apart from others by what they are, since process ids are reused."""

import fcntl
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nbgpu.core.errors import SetupError
from nbgpu.wiring.deployment import DATA_VARIABLE, Deployment
from nbgpu.wiring.service import LOCK_FILE, take_lock

STOP_SECONDS = 30.0
SERVICE_SECONDS = 10.0
MAX_PORT = 65535
SEARCHED = 200  # ports looked at for a free pair
PROXY_PID_FILE = "jupyterhub-proxy.pid"  # JupyterHub's own name for it, in its working folder


def hub_pid(deployment: Deployment) -> int | None:
    """Return the pid of this deployment's running hub, or None; a reused pid is not taken for it."""
    try:
        pid = int(deployment.pid_file.read_text())
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    ours = os.fsencode(f"{DATA_VARIABLE}={deployment.data}") in environ
    return pid if ours and b"jupyterhub" in command else None


def hub_address(deployment: Deployment) -> str:
    """Return the address the hub last served on."""
    try:
        return (deployment.data / "hub.url").read_text().strip()
    except OSError:
        return "an unknown address"


@contextmanager
def only_hub(deployment: Deployment) -> Iterator[None]:
    """Hold the deployment's lock: one hub serves a data folder. SetupError names the one that does already.

    The kernel drops the lock with its process, however that ends, so there are no stale locks.
    """
    with (deployment.data / "run.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = hub_pid(deployment)
            what = f"runs at {hub_address(deployment)} (process {pid})" if pid else "is being started or stopped"
            raise SetupError(
                f"The hub of {deployment.data} {what}. Use that one, end it with "
                f"`make down DATA={deployment.data}`, or run a second one with `make run PORT=8123 DATA=some/dir`."
            ) from None
        yield


def end_hub(deployment: Deployment, *, seconds: float = STOP_SECONDS) -> int | None:
    """End the running hub (its proxy and services with it) and return its pid; None when none runs."""
    pid = hub_pid(deployment)
    if pid is not None:
        _signal(pid, signal.SIGTERM)
        if not _ended(deployment, seconds):
            _signal(pid, signal.SIGKILL)
            _ended(deployment, seconds)
    _wait_for_service(deployment)
    deployment.pid_file.unlink(missing_ok=True)
    return pid


def _wait_for_service(deployment: Deployment) -> None:
    """Wait for the `nbgpu` service, which ends with its hub, to have written what it has."""
    if (deployment.data / LOCK_FILE).exists():
        lock = take_lock(deployment, seconds=SERVICE_SECONDS)
        if lock is not None:
            lock.close()


def forget_lost_proxy(deployment: Deployment) -> None:
    """Remove a pid file whose proxy is gone: JupyterHub would end whatever has that process id now."""
    file = deployment.data / PROXY_PID_FILE
    try:
        command = Path(f"/proc/{int(file.read_text())}/cmdline").read_bytes()
    except (OSError, ValueError):
        command = b""
    if b"configurable-http-proxy" not in command:
        file.unlink(missing_ok=True)


def check_port(address: str, port: int) -> None:
    """SetupError when a hub can't serve on the port, with the nearest on which one could."""
    for host, number in _ports(address, port):
        reason = _why_not(host, number)
        if reason is not None:
            others = (other for other in range(port + 1, port + SEARCHED) if other < MAX_PORT)
            free = next((other for other in others if _is_free(address, other)), None)
            raise SetupError(
                f"Port {number} on {host or 'this machine'}, which a hub at port {port} needs, can't be used "
                f"({reason}). Choose another: run the same command with PORT={free or '…'}"
            )


def _ports(address: str, port: int) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return what a hub at `port` listens on: that, and its neighbour for the proxy's API."""
    return (address, port), ("127.0.0.1", port + 1 if port < MAX_PORT else port - 1)


def _is_free(address: str, port: int) -> bool:
    return all(_why_not(*pair) is None for pair in _ports(address, port))


def _why_not(address: str, port: int) -> str | None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.strerror or str(error)
    return None


def _ended(deployment: Deployment, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while hub_pid(deployment) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it ended meanwhile: that is what we want
