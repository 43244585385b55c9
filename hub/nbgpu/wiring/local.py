"""The parts of a deployment whose servers are processes of this account; and which engine a deployment has."""

import os
from pathlib import Path
from typing import Literal

from nbgpu.core.errors import EngineUnavailable, SettingsError
from nbgpu.settings import Settings
from nbgpu.spawner.local_sessions import Sessions
from nbgpu.wiring.authenticator import is_loopback
from nbgpu.wiring.deployment import Deployment
from nbgpu.wiring.ports import find_port, is_free

EngineKind = Literal["docker", "local"]
PYTHON_VARIABLE = "NBGPU_NOTEBOOK_PYTHON"  # Python of the environment that the servers run in


def recorded_engine(deployment: Deployment) -> EngineKind | None:
    """Return the engine that the deployment was started with; None for one that never was."""
    try:
        return "local" if _engine_file(deployment).read_text().strip() == "local" else "docker"
    except FileNotFoundError:
        return None


def record_engine(deployment: Deployment, kind: EngineKind) -> None:
    """Keep the engine for all who ask later: the hub, and the commands that end or read the deployment."""
    _engine_file(deployment).write_text(f"{kind}\n")


def engine_of(deployment: Deployment, settings: Settings) -> EngineKind:
    """Return the deployment's engine: the recorded one, else what the settings say."""
    return recorded_engine(deployment) or ("local" if settings.engine.kind == "local" else "docker")


def _engine_file(deployment: Deployment) -> Path:
    return deployment.data / "engine"


def check_local_address(address: str) -> None:
    """Refuse to serve processes of this account to a network. Raises SettingsError."""
    if not is_loopback(address):
        raise SettingsError(
            f'nbgpu.toml: hub: address = "{address}": servers that are processes of this account are for one person, '
            'on loopback (127.0.0.1) only. Set kind = "docker" in [engine] to serve on a network.'
        )


def open_sessions(deployment: Deployment) -> Sessions:
    """Return the deployment's sessions."""
    return Sessions(deployment.data / "servers", deployment.prefix)


def homes_folder(deployment: Deployment) -> Path:
    """Return the folder of the home folders."""
    return deployment.data / "homes"


def hub_port(deployment: Deployment) -> int:
    """Return the port on which servers reach the hub's API; chosen once, since running servers keep it."""
    file = deployment.data / "hub-api-port"
    if not file.exists():
        draft = deployment.data / f".hub-api-port-{os.getpid()}"
        draft.write_text(f"{find_port()}\n")
        draft.replace(file)
    return int(file.read_text())


def ensure_hub_port(deployment: Deployment) -> None:
    """See that the hub can listen on its API's port: another is chosen where no server knows the old one.

    Raises EngineUnavailable when servers do.
    """
    port = hub_port(deployment)
    if is_free(port):
        return
    if open_sessions(deployment).processes():
        raise EngineUnavailable(
            f"Another program has taken port {port}, at which running notebooks reach the hub. End that program, or "
            "the notebooks with `make down`."
        )
    (deployment.data / "hub-api-port").unlink()
    hub_port(deployment)
