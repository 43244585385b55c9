"""The hub's part of the culler: its token, its rights, and the process."""

from collections.abc import Mapping

from nbgpu.core.scopes import CULL
from nbgpu.wiring.deployment import Deployment
from nbgpu.wiring.keep_process import keep_process, module_command

CULLER = "idle-culler"
CULLER_TOKEN = "culler-token"  # noqa: S105 - the name of the file that keeps it
# To list the servers that run, know their sessions and stop them; to ask the service which are due. Nothing else.
CULLER_SCOPES = [
    "list:users",
    "read:servers",
    "admin:server_state",
    "delete:servers",
    "access:services!service=nbgpu",
    CULL,
]


def culler_entry(deployment: Deployment) -> dict[str, object]:
    """Return what JupyterHub is told of the culler: a service that somebody else runs."""
    return {"name": CULLER, "api_token": deployment.secret(CULLER_TOKEN), "display": False}


def culler_role() -> dict[str, object]:
    """Return the role that gives it its rights."""
    return {"name": "nbgpu-culler", "scopes": CULLER_SCOPES, "services": [CULLER]}


def culler_environment(deployment: Deployment, hub_url: str) -> dict[str, str]:
    """Return the variables that JupyterHub gives to services, as far as the culler reads them."""
    return {
        "JUPYTERHUB_SERVICE_NAME": CULLER,
        "JUPYTERHUB_API_TOKEN": deployment.secret(CULLER_TOKEN),
        "JUPYTERHUB_API_URL": f"{hub_url}/hub/api",
    }


async def keep_culler(environment: Mapping[str, str]) -> None:
    """Run the culler until cancelled; one that dies is started again."""
    await keep_process("culler", module_command("nbgpu.wiring.culler"), environment)
