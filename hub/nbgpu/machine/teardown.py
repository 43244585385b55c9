"""Ending a deployment: `down` keeps what people made, `purge` deletes it. Only what carries our label is touched."""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import docker
from docker.errors import DockerException, NotFound
from requests.exceptions import RequestException

from nbgpu.core.errors import EngineUnavailable, NbgpuError, SetupError
from nbgpu.machine.processes import end_hub
from nbgpu.machine.serve import find_settings
from nbgpu.settings import load
from nbgpu.spawner.container import DEPLOYMENT_LABEL
from nbgpu.spawner.local_homes import delete_home
from nbgpu.wiring.adapters import Adapters
from nbgpu.wiring.deployment import Deployment, open_deployment
from nbgpu.wiring.local import homes_folder, open_sessions, recorded_engine

GRACE_SECONDS = 10  # for a notebook to save and end
Say = Callable[[str], None]


def find_deployment(data: Path) -> Deployment | None:
    """Return the deployment of a data folder, or None where the folder is none of ours (and make nothing)."""
    return open_deployment(data) if (data / "prefix").is_file() else None


def take_down(deployment: Deployment, say: Say) -> None:
    """End the hub and the notebooks, remove the network; home volumes and the data folder stay."""
    pid = end_hub(deployment)
    say(f"Hub: ended (process {pid})" if pid else "Hub: was not running")
    if recorded_engine(deployment) == "local":
        say(f"Notebooks: {_end_processes(deployment)} ended")
        return
    with _engine() as client:
        filters = {"label": f"{DEPLOYMENT_LABEL}={deployment.prefix}"}
        containers = client.containers.list(all=True, filters=filters, ignore_removed=True)
        for container in containers:
            with suppress(NotFound):  # somebody else removed it meanwhile
                container.stop(timeout=GRACE_SECONDS)
                container.remove(force=True, v=True)
        say(f"Notebooks: {len(containers)} ended")
        for network in client.networks.list(filters=filters):
            with suppress(NotFound):
                network.remove()


def release_leases(deployment: Deployment, config: Path | None, say: Say) -> None:
    """Give back what the ended notebooks held. What can't be given back now, the next hub does."""
    try:
        leases = Adapters(deployment, load(find_settings(config))).leases
        held = leases.open_leases()
        for lease in held:
            leases.release(lease.session_id, "ended by nbgpu down")
    except NbgpuError as error:
        say(f"Leases: left to the next start of the hub: {error}")
        return
    leases.close()
    say(f"Leases: {len(held)} released")


def purge(deployment: Deployment, say: Say) -> None:
    """Take down, then delete home volumes and the data folder. SetupError where the folder holds more than ours."""
    check_deletable(deployment.data)
    take_down(deployment, say)
    if recorded_engine(deployment) == "local":
        homes = list(homes_folder(deployment).glob("*"))
        for home in homes:
            delete_home(home)
        say(f"Homes: {len(homes)} deleted")
    else:
        with _engine() as client:
            volumes = home_volumes(client, deployment)
            for volume in volumes:
                with suppress(NotFound):
                    volume.remove(force=True)
            say(f"Home volumes: {len(volumes)} deleted")
    shutil.rmtree(deployment.data)
    say(f"Data folder: {deployment.data} deleted")


def _end_processes(deployment: Deployment) -> int:
    """End all sessions that are processes, side by side; return how many there were. Raises EngineError."""
    sessions = open_sessions(deployment)
    found = [each.id for each in sessions.containers()]
    with ThreadPoolExecutor(max_workers=16) as pool:
        list(pool.map(partial(sessions.end, grace=GRACE_SECONDS), found))
    return len(found)


def home_volumes(client: docker.DockerClient, deployment: Deployment) -> list[docker.models.volumes.Volume]:
    """Return the volumes that carry the deployment's label."""
    return list(client.volumes.list(filters={"label": f"{DEPLOYMENT_LABEL}={deployment.prefix}"}))


def check_deletable(data: Path) -> None:
    """SetupError unless the folder is plainly a deployment's and nothing else's."""
    shared = data in (Path.home(), Path("/")) or data in Path.cwd().resolve().parents or data == Path.cwd().resolve()
    if shared or (data / ".git").exists() or not (data / "prefix").is_file():
        raise SetupError(
            f"{data} is more than a data folder of nbgpu and is not deleted. Delete it by hand if you mean it."
        )


@contextmanager
def _engine() -> Iterator[docker.DockerClient]:
    client = None
    try:
        client = docker.from_env(timeout=60)
        yield client
    except (DockerException, RequestException) as error:
        raise EngineUnavailable(
            f"Docker at {os.environ.get('DOCKER_HOST', 'the local socket')} gave no answer, so nothing was ended "
            f"there: {error}. Start it (`make setup`) and run this again."
        ) from error
    finally:
        if client is not None:
            client.close()
