"""The client of a deployment's own service, with the token of an administrator's scripts."""

from nbgpu.client import Client
from nbgpu.core.errors import ServiceUnavailable
from nbgpu.wiring.deployment import Deployment
from nbgpu.wiring.service import find_address


def open_client(deployment: Deployment) -> Client:
    """Return a client of the service that runs on this machine. Raises ServiceUnavailable: none ever has."""
    address, token = find_address(deployment), deployment.admin_token_file
    if address is None or not token.is_file():
        raise ServiceUnavailable(f"No hub has run for {deployment.data} yet: `nbgpu run` starts one.")
    return Client(address, token.read_text().strip(), direct=True)
