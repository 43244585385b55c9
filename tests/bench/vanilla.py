"""The yardstick: JupyterHub with plain DockerSpawner, as its documentation sets it up, on the same image."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker
import httpx

from e2e.running import free_port, until

NETWORK = f"nbgpu-bench-vanilla-{secrets.token_hex(3)}"  # two runs at once do not meet
DOCKER_SPAWNER = """
c.JupyterHub.spawner_class = "dockerspawner.DockerSpawner"
c.DockerSpawner.image = {image!r}
c.DockerSpawner.network_name = {network!r}
c.DockerSpawner.use_internal_ip = True
c.DockerSpawner.remove = True
c.DockerSpawner.prefix = "nbgpu-bench-vanilla"
c.DockerSpawner.volumes = {{"nbgpu-bench-vanilla-home-{{username}}": "/home/nbgpu"}}
"""
NULL_SPAWNER = """
import sys
sys.path.insert(0, {folder!r})
c.JupyterHub.spawner_class = "bench.null_spawners.NullSpawner"
"""
COMMON = """
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = "http://{gateway}:{hub_port}"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.allow_all = True
c.JupyterHub.services = [{{"name": "bench", "api_token": {token!r}}}]
c.JupyterHub.load_roles = [{{"name": "admin", "services": ["bench"]}}]
c.ConfigurableHTTPProxy.command = {proxy}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.JupyterHub.concurrent_spawn_limit = 0
"""


class VanillaHub:
    """A plain hub and a client with an admin's token."""

    def __init__(self, port: int, token: str) -> None:
        self.api = httpx.Client(
            base_url=f"http://127.0.0.1:{port}/hub/api", headers={"Authorization": f"token {token}"}, timeout=120
        )

    def add_user(self, name: str) -> str:
        """Make a user."""
        self.api.post(f"/users/{name}").raise_for_status()
        return name

    def start_server(self, user: str) -> None:
        """Start a server; return when it is ready."""
        self.api.post(f"/users/{user}/server").raise_for_status()
        until(lambda: self._server(user).get("ready"), seconds=120)

    def stop_server(self, user: str) -> None:
        """Stop a server; return when it is forgotten."""
        self.api.delete(f"/users/{user}/server").raise_for_status()
        until(lambda: not self._server(user), seconds=60)

    def _server(self, user: str) -> dict[str, object]:
        found: dict[str, object] = self.api.get(f"/users/{user}").json()["servers"].get("", {})
        return found


@contextlib.contextmanager
def vanilla_hub(spawner: str, proxy: list[str]) -> Iterator[VanillaHub]:
    """Run a plain hub for a while; `spawner` is one of the texts above, filled in."""
    engine = docker.from_env()
    network = engine.networks.create(NETWORK, driver="bridge")
    gateway = engine.api.inspect_network(NETWORK)["IPAM"]["Config"][0]["Gateway"]
    port, token = free_port(), secrets.token_hex(32)
    with tempfile.TemporaryDirectory() as folder:
        config = COMMON.format(
            port=port, gateway=gateway, hub_port=8081, token=token, proxy=json.dumps(proxy), proxy_port=port + 1
        )
        Path(folder, "config.py").write_text(config + spawner)
        with Path(folder, "log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "-f", "config.py"],
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"CONFIGPROXY_AUTH_TOKEN": secrets.token_hex(16)},
            )
        hub = VanillaHub(port, token)
        try:
            until(lambda: _answers(hub), seconds=60, why=Path(folder, "log").read_text())
            yield hub
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
            hub.api.close()
            _clean(engine)
            network.remove()
            engine.close()


def _answers(hub: VanillaHub) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return hub.api.get("/").is_success
    return False


def _clean(engine: docker.DockerClient) -> None:
    for container in engine.containers.list(all=True, filters={"name": "nbgpu-bench-vanilla"}):
        container.remove(force=True, v=True)
    for volume in engine.volumes.list(filters={"name": "nbgpu-bench-vanilla"}):
        volume.remove(force=True)
