"""The Docker network of a deployment's servers. The hub listens on its gateway, an address of this machine alone.

Containers of other networks on this machine reach that address, too, unless its firewall says otherwise: a hub answers
them as it answers anybody, and lets in who logs in.
"""

import socket
from collections.abc import Callable
from contextlib import closing
from typing import Any

from docker import DockerClient
from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import RequestException

from nbgpu.core.errors import EngineError, EngineUnavailable
from nbgpu.spawner.container import DEPLOYMENT_LABEL
from nbgpu.wiring.deployment import Deployment

# Servers of different people share the network but can't talk to each other over it.
_OPTIONS = {"com.docker.network.bridge.enable_icc": "false"}

_SHORT = 5.0  # seconds; while the hub waits at its start, no notebook is reached either
_LONG = 30.0


def find_gateway(connect: Callable[[float], DockerClient], deployment: Deployment) -> str:
    """Return the gateway of the deployment's network: as Docker says, else the one that it had last time.

    Notebooks run on while Docker is away, and a hub that starts then has to serve them. `connect` takes the time
    limit of the client's calls. Raises EngineError: nothing is remembered, or this machine no longer has the address.
    """
    file = deployment.data / "gateway"
    remembered = file.read_text().strip() if file.exists() else ""
    try:
        with closing(connect(_SHORT if remembered else _LONG)) as client:
            gateway = ensure_network(client, deployment)
    except EngineUnavailable:
        if not (remembered and _is_ours(remembered)):
            raise
        return remembered
    if gateway != remembered:
        draft = file.with_suffix(".new")
        draft.write_text(f"{gateway}\n")
        draft.replace(file)
    return gateway


def _is_ours(address: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def ensure_network(client: DockerClient, deployment: Deployment) -> str:
    """Return the gateway address of the deployment's network, made when it is missing. Raises EngineError."""
    try:
        network = _find(client, deployment) or _create(client, deployment)
    except (DockerException, RequestException) as error:
        raise EngineUnavailable(f"Docker could not give the network {deployment.network}: {error}") from error
    return str(network["IPAM"]["Config"][0]["Gateway"])


def _find(client: DockerClient, deployment: Deployment) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = client.api.inspect_network(deployment.network)
    except NotFound:
        return None
    if (found.get("Labels") or {}).get(DEPLOYMENT_LABEL) != deployment.prefix:
        raise EngineError(
            f"A Docker network that nbgpu did not make has the name {deployment.network}: "
            f"remove it (docker network rm {deployment.network}) or use another data folder."
        )
    if not found["IPAM"]["Config"] or "Gateway" not in found["IPAM"]["Config"][0]:
        # Docker 20.10 fills in the gateway only once; a network without one can't serve the hub.
        client.api.remove_network(deployment.network)
        return None
    return found


def _create(client: DockerClient, deployment: Deployment) -> dict[str, Any]:
    try:
        client.api.create_network(
            deployment.network,
            driver="bridge",
            options=_OPTIONS,
            labels={DEPLOYMENT_LABEL: deployment.prefix},
            check_duplicate=True,
        )
    except APIError as error:
        if "pool" in str(error.explanation):
            raise EngineError(
                "Docker has no addresses left for another network: remove unused ones with `docker network prune`."
            ) from error
        raise
    created: dict[str, Any] = client.api.inspect_network(deployment.network)
    return created
