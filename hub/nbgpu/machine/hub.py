"""The hub as a child process: started, watched until it answers, and ended with its proxy.

What the hub is told goes through its environment (`Launch.environ`); `jupyterhub_config.py` reads it there.
"""

import http.client
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path

from nbgpu.core.errors import SetupError
from nbgpu.machine.child import bound_command
from nbgpu.wiring.deployment import DATA_VARIABLE, Deployment

READY_SECONDS = 120.0
STOP_SECONDS = 30.0
LOG_BYTES = 5_000_000  # a file; three are kept
TAIL = 25  # lines shown when the hub dies


@dataclass(frozen=True, slots=True)
class Launch:
    """All that one start of the hub depends on; `address` is where it is to serve."""

    deployment: Deployment
    address: str
    port: int
    settings_file: Path
    hub_config: Path
    proxy_command: tuple[str, ...]

    @property
    def url(self) -> str:
        """The address for a browser on this machine."""
        return f"http://{self.local_address}:{self.port}"

    @property
    def local_address(self) -> str:
        """The address to reach it at from here: loopback where it serves on all."""
        return "127.0.0.1" if self.address in ("", "0.0.0.0", "::") else self.address  # noqa: S104  # compared, not bound

    def environ(self) -> dict[str, str]:
        """Return the hub's environment; the proxy is bound to the hub's life as the hub is to ours."""
        return {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            DATA_VARIABLE: str(self.deployment.data),
            "NBGPU_PORT": str(self.port),
            "NBGPU_CONFIG": str(self.settings_file),
            "NBGPU_PROXY_COMMAND": json.dumps(bound_command(self.proxy_command, signal_number=signal.SIGTERM)),
        }

    def command(self) -> list[str]:
        """Return the hub's command line."""
        hub = [sys.executable, "-m", "jupyterhub", "-f", str(self.hub_config)]
        return bound_command(hub, signal_number=signal.SIGTERM, parent=os.getpid())


class Hub:
    """A running hub. Its output goes to `hub.log` of the data folder; errors in it go to `say` too."""

    def __init__(self, launch: Launch, *, say: Callable[[str], None], command: list[str] | None = None) -> None:
        self.launch = launch
        self._say = say
        self._stopping = False
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._process = subprocess.Popen(
            command or launch.command(),
            env=launch.environ(),
            cwd=launch.deployment.data,  # what JupyterHub writes by relative name belongs there
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # a terminal's Ctrl-C reaches us alone; we pass it on once
        )
        launch.deployment.pid_file.write_text(f"{self._process.pid}\n")
        (launch.deployment.data / "hub.url").write_text(f"{launch.url}\n")
        self._pump = threading.Thread(target=self._keep_output, daemon=True)
        self._pump.start()

    def wait_until_ready(self, stop: threading.Event, *, seconds: float = READY_SECONDS) -> bool:
        """Wait until the hub answers through its proxy; False when `stop` came first. SetupError when it dies."""
        deadline = time.monotonic() + seconds
        while not self._answers():
            if self._process.poll() is not None:
                raise SetupError(self._death("before it answered"))
            if time.monotonic() > deadline:
                self.stop()
                raise SetupError(self._death(f"because it did not answer within {seconds:.0f} s"))
            if stop.wait(0.1):
                return False
        return True

    def wait(self, stop: threading.Event) -> None:
        """Wait until `stop` is set or the hub was told to end. SetupError when it died."""
        while self._process.poll() is None and not stop.wait(0.2):
            pass
        if self._process.poll() not in (None, 0, -signal.SIGTERM):
            raise SetupError(self._death("while serving"))

    def stop(self) -> None:
        """End the hub; it ends its proxy and services and leaves the notebooks."""
        self._stopping = True
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._say(f"The hub did not end within {STOP_SECONDS:.0f} s and is killed.")
                self._process.kill()
                self._process.wait()
        self._pump.join(5)
        self.launch.deployment.pid_file.unlink(missing_ok=True)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(self.launch.local_address, self.launch.port, timeout=5)
        try:
            connection.request("GET", "/hub/health")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _keep_output(self) -> None:
        log = RotatingFileHandler(self._log_file, maxBytes=LOG_BYTES, backupCount=2, encoding="utf-8")
        with self._process.stdout or open(os.devnull) as lines:  # noqa: PTH123  # for the type only
            for line in lines:
                self._tail.append(line.rstrip())
                log.emit(logging.makeLogRecord({"msg": self._tail[-1]}))
                if line.startswith(("[E ", "[C ")) and not self._stopping:
                    self._say(self._tail[-1])
        log.close()

    @property
    def _log_file(self) -> Path:
        return self.launch.deployment.data / "hub.log"

    def _death(self, when: str) -> str:
        self._pump.join(5)
        self.launch.deployment.pid_file.unlink(missing_ok=True)
        lines = "\n".join(f"    {line}" for line in self._tail)
        return f"The hub ended {when} (status {self._process.returncode}). The end of {self._log_file}:\n{lines}"
