"""The hub's part of the `nbgpu` service: it starts the process, and starts it again within seconds when it dies.

JupyterHub can manage services itself, but waits for one that has a URL before it serves anybody, gives up altogether
when that does not answer, and looks only every 30 seconds whether it lives (6.1.1). So to JupyterHub the service is one
that somebody else runs; that somebody is a task in the hub's own loop.
"""

from collections.abc import Mapping

from nbgpu.core.scopes import BILL, OPERATE, READ_ALL
from nbgpu.service.app import ADDRESS, PREFIX
from nbgpu.wiring.deployment import Deployment
from nbgpu.wiring.keep_process import keep_process, module_command
from nbgpu.wiring.service import URL_FOR_SERVERS, ensure_service_port

SERVICE = "nbgpu"
SERVICE_TOKEN = "service-token"  # noqa: S105 - the name of the file that keeps it
SERVICE_SCOPES = ["list:users", "read:servers", "delete:servers"]
HUB_WAITS = 1  # seconds that JupyterHub's start waits for the service at most


def service_entry(deployment: Deployment) -> dict[str, object]:
    """Return what JupyterHub is told of the service."""
    return {
        "name": SERVICE,
        "url": f"http://{ADDRESS}:{ensure_service_port(deployment)}",
        "api_token": deployment.secret(SERVICE_TOKEN),
        "display": False,
        "timeout": HUB_WAITS,
        "oauth_no_confirm": True,  # it is the hub's own: nobody is asked whether it may know who they are
        "oauth_client_allowed_scopes": [READ_ALL, OPERATE, BILL],  # of those who have them
    }


def service_role() -> dict[str, object]:
    """Return the role that gives the service its rights."""
    return {"name": "nbgpu-service", "scopes": SERVICE_SCOPES, "services": [SERVICE]}


def service_environment(deployment: Deployment, hub_url: str, url_for_servers: str) -> dict[str, str]:
    """Return the variables that JupyterHub gives to services, for one that it does not start itself; and one of ours.

    `url_for_servers` is where servers reach it.
    """
    return {
        URL_FOR_SERVERS: url_for_servers,
        "JUPYTERHUB_SERVICE_NAME": SERVICE,
        "JUPYTERHUB_SERVICE_URL": f"http://{ADDRESS}:{ensure_service_port(deployment)}",
        "JUPYTERHUB_SERVICE_PREFIX": PREFIX,
        "JUPYTERHUB_API_TOKEN": deployment.secret(SERVICE_TOKEN),
        "JUPYTERHUB_API_URL": f"{hub_url}/hub/api",
        "JUPYTERHUB_BASE_URL": "/",
        "JUPYTERHUB_CLIENT_ID": f"service-{SERVICE}",
    }


async def keep_service(environment: Mapping[str, str], command: list[str] | None = None) -> None:
    """Run the service until cancelled; one that dies is started again."""
    await keep_process("nbgpu service", command or module_command("nbgpu.wiring.service"), environment)
