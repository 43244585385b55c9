"""A deployment whose hub asks Docker through a socket of the test's, started as `nbgpu run` starts it."""

import os
import signal
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

from e2e.running import Deployment, until
from nbgpu.machine.host import Host
from nbgpu.machine.hub import Hub, Launch
from nbgpu.machine.processes import forget_lost_proxy
from nbgpu.machine.proxy import default_cache, ensure_proxy
from nbgpu.wiring.deployment import open_deployment
from nbgpu.wiring.local import record_engine

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class EngineLaunch(Launch):
    """A launch with an engine of its own."""

    docker_host: str

    def environ(self) -> dict[str, str]:
        """Return the hub's environment."""
        return super().environ() | {"DOCKER_HOST": self.docker_host}


class FaultySite(Deployment):
    """Its hub alone is without Docker when the test takes the socket away; the test itself goes on asking."""

    def __init__(self, data: Path, settings: Path, docker_host: str) -> None:
        super().__init__(data, settings)
        self.docker_host = docker_host
        self.said: list[str] = []
        self.hub: Hub | None = None

    def start(self) -> None:
        """Start the hub and wait until it answers."""
        self.launch()
        assert self.hub is not None
        assert self.hub.wait_until_ready(threading.Event(), seconds=90)

    def launch(self) -> None:
        """Start the hub's process."""
        deployment = open_deployment(self.data)
        record_engine(deployment, "docker")
        forget_lost_proxy(deployment)
        proxy = ensure_proxy(Host(), default_cache(), lambda _: None)
        self.hub = Hub(
            EngineLaunch(
                deployment=deployment,
                address="127.0.0.1",
                port=self.port,
                settings_file=self.settings,
                hub_config=ROOT / "jupyterhub_config.py",
                proxy_command=tuple(proxy),
                docker_host=self.docker_host,
            ),
            say=self.said.append,
        )

    def stop(self) -> None:
        """Press Ctrl-C and wait for the end; idempotent."""
        if self.hub is not None:
            self.hub.stop()
            self.hub = None

    def kill(self) -> None:
        """Kill the hub, and wait until its proxy has gone with it."""
        assert self.hub is not None
        os.kill(int((self.data / "hub.pid").read_text()), signal.SIGKILL)
        self.stop()
        until(lambda: self._is_free(self.port) and self._is_free(self.port + 1), why="the proxy outlives its hub")

    @staticmethod
    def _is_free(port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    def log(self) -> str:
        """Return the hub's log."""
        return (self.data / "hub.log").read_text()
