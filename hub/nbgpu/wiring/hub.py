"""Configure JupyterHub for one deployment: the composition, as a table of contents."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from traitlets.config import Config

import nbgpu.spawner
from nbgpu.core.errors import NbgpuError
from nbgpu.core.scopes import BILL, CULL, OPERATE, READ_ALL
from nbgpu.settings import Settings, load
from nbgpu.spawner.desk import Desk
from nbgpu.spawner.docker import GPUDockerSpawner
from nbgpu.spawner.local import LocalSpawner
from nbgpu.spawner.pages import build_template_vars
from nbgpu.spawner.routes import HubProxy
from nbgpu.store import HubLock, hold_hub_lock
from nbgpu.telemetry.reconciler import ReconcileLoop, Reconciler
from nbgpu.wiring.adapters import RECONCILER_TOKEN, Adapters
from nbgpu.wiring.authenticator import configure_auth
from nbgpu.wiring.deployment import Deployment, open_deployment
from nbgpu.wiring.keep_culler import culler_entry, culler_environment, culler_role, keep_culler
from nbgpu.wiring.keep_lock import keep_lock
from nbgpu.wiring.keep_service import keep_service, service_entry, service_environment, service_role
from nbgpu.wiring.local import PYTHON_VARIABLE, check_local_address, ensure_hub_port, homes_folder, open_sessions

SCRIPTS = "nbgpu-scripts"  # the service that the admin token for scripts belongs to
RECONCILER = "nbgpu-reconciler"
RECONCILER_SCOPES = ["list:users", "read:servers", "admin:server_state", "servers"]
# Of a server's own token: as JupyterHub has them, and it may tell the service of itself and ask it.
SERVER_SCOPES = ["users:activity!user", "access:servers!server", "access:services!service=nbgpu"]
_HELD: list[HubLock] = []  # locks that live as long as this process
_BACKGROUND: set[asyncio.Task[None]] = set()


def configure(c: Config) -> None:
    """Set all of JupyterHub's configuration from the environment that `nbgpu run` passes. Exits on a mistake of ours.

    Environment: NBGPU_DATA, NBGPU_CONFIG (settings file), NBGPU_PORT, NBGPU_PROXY_COMMAND (JSON list).
    """
    try:
        adapters = open_adapters()
        if adapters.is_local:
            check_local_address(adapters.settings.hub.address)
            ensure_hub_port(adapters.deployment)
        _keep(hold_hub_lock(adapters.database))
        _configure_hub(c, adapters.deployment, adapters.settings)
        _configure_proxy(c, adapters.deployment)
        _configure_tokens(c, adapters.deployment)
        start_services(adapters)
        configure_auth(c, adapters.settings, adapters.deployment)
        desk = adapters.build_desk(start_reconciler(adapters.reconciler))
        _configure_spawner(c, adapters, desk)
        _configure_pages(c, adapters, desk)
    except NbgpuError as error:
        sys.stderr.write(f"[C nbgpu] {error}\n")
        raise SystemExit(1) from None


def open_adapters() -> Adapters:
    """Return the adapters of the deployment that the environment names. Raises SettingsError."""
    file = Path(os.environ.get("NBGPU_CONFIG", "nbgpu.toml"))
    adapters = Adapters(open_deployment(), load(file))
    load(file, images=adapters.catalog.images)
    return adapters


def _port() -> int:
    return int(os.environ.get("NBGPU_PORT", "8000"))


def _configure_hub(c: Config, deployment: Deployment, settings: Settings) -> None:
    c.JupyterHub.bind_url = f"http://{settings.hub.address}:{_port()}"
    c.JupyterHub.db_url = deployment.hub_database_url
    c.JupyterHub.cookie_secret_file = str(deployment.data / "jupyterhub_cookie_secret")
    c.JupyterHub.cleanup_servers = False  # a hub that stops leaves notebooks running
    c.JupyterHub.allow_named_servers = settings.hub.named_servers > 0
    c.JupyterHub.named_server_limit_per_user = settings.hub.named_servers
    c.JupyterHub.concurrent_spawn_limit = 0  # nobody is sent away: the turnstile lets them in in turn
    # A hundred servers that take connections and never answer must not hold up what the hub asks of its proxy.
    c.JupyterHubHTTPClient.connector_options = {"limit": 0}


def _configure_proxy(c: Config, deployment: Deployment) -> None:
    port = _port()
    api_port = port + 1 if port < 65535 else port - 1
    command = os.environ.get("NBGPU_PROXY_COMMAND")
    c.JupyterHub.proxy_class = HubProxy
    c.ConfigurableHTTPProxy.command = json.loads(command) if command else shutil.which("configurable-http-proxy")
    c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{api_port}"
    c.ConfigurableHTTPProxy.auth_token = deployment.secret("proxy-token")
    c.ConfigurableHTTPProxy.pid_file = str(deployment.data / "jupyterhub-proxy.pid")


def _configure_tokens(c: Config, deployment: Deployment) -> None:
    """Let in, each with a token and rights of its own: an admin's scripts, the reconciler, our services."""
    tokens = {SCRIPTS: deployment.admin_token_file.name, RECONCILER: RECONCILER_TOKEN}
    c.JupyterHub.services = [
        {"name": name, "api_token": deployment.secret(file), "display": False} for name, file in tokens.items()
    ]
    c.JupyterHub.services += [service_entry(deployment), culler_entry(deployment)]
    # They are 32 random bytes each; what slows down guessing a person's own would cost 2 ms of the hub a request.
    c.JupyterHub.trust_user_provided_tokens = True
    c.JupyterHub.load_roles = [
        {"name": "admin", "services": [SCRIPTS]},
        {"name": RECONCILER, "scopes": RECONCILER_SCOPES, "services": [RECONCILER]},
        service_role(),
        culler_role(),
        {"name": "user", "scopes": ["self", "access:services!service=nbgpu"]},  # everybody may read their own usage
        {"name": "server", "scopes": SERVER_SCOPES},
    ]
    c.JupyterHub.custom_scopes = {
        READ_ALL: {"description": "Read everybody's usage, budgets and quotas."},
        OPERATE: {"description": "Read of everybody's servers, keep and stop each, and take GPUs out of service."},
        BILL: {"description": "Set prices, quotas and budgets, and give credits."},
        CULL: {"description": "Read which idle servers are to be stopped now."},
    }


def _keep(lock: HubLock) -> None:
    """Hold the lock as long as this process lives, and look after it where an event loop runs."""
    _HELD.append(lock)
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        _run_beside(keep_lock(lock))


def _run_beside(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    _BACKGROUND.add(task)  # a task that nobody holds may be collected
    task.add_done_callback(_BACKGROUND.discard)


def start_reconciler(reconciler: Reconciler) -> Callable[[str], None]:
    """Run the reconciler beside the hub, in its event loop; return what to tell doubts to.

    JupyterHub reads its configuration inside the running loop. Where there is none, nothing is served and nothing runs.
    """
    try:
        loop = ReconcileLoop(reconciler)
    except RuntimeError:
        return lambda _: None
    _run_beside(loop.run())
    return loop.doubt


def start_services(adapters: Adapters) -> None:
    """Run the `nbgpu` service and the culler beside the hub, where an event loop runs."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        environment = service_environment(adapters.deployment, adapters.hub_url, adapters.service_url)
        _run_beside(keep_service(environment))
        _run_beside(keep_culler(culler_environment(adapters.deployment, adapters.hub_url)))


def _configure_spawner(c: Config, adapters: Adapters, desk: Desk) -> None:
    c.JupyterHub.hub_bind_url = adapters.hub_url
    c.FlavoredSpawner.get_desk = lambda: desk
    c.FlavoredSpawner.service_url = adapters.service_url
    c.FlavoredSpawner.before_stop = adapters.settings.engine.before_stop.total_seconds()
    c.FlavoredSpawner.launch_timeout = adapters.settings.hub.start_timeout.total_seconds()
    if adapters.is_local:
        _configure_local(c, adapters)
    else:
        _configure_docker(c, adapters)


def _configure_local(c: Config, adapters: Adapters) -> None:
    c.JupyterHub.spawner_class = LocalSpawner
    c.LocalSpawner.prefix = adapters.deployment.prefix
    c.LocalSpawner.folder = str(open_sessions(adapters.deployment).folder)
    c.LocalSpawner.homes = str(homes_folder(adapters.deployment))
    c.LocalSpawner.python = os.environ.get(PYTHON_VARIABLE, sys.executable)
    c.LocalSpawner.before_stop_script = str(adapters.catalog.find("base").folder / "before-stop")
    c.LocalSpawner.stop_timeout = adapters.settings.engine.stop_timeout.total_seconds()


def _configure_docker(c: Config, adapters: Adapters) -> None:
    engine = adapters.settings.engine
    c.JupyterHub.spawner_class = GPUDockerSpawner
    c.GPUDockerSpawner.prefix = adapters.deployment.prefix
    c.GPUDockerSpawner.network_name = adapters.deployment.network
    c.GPUDockerSpawner.calls = engine.calls
    c.GPUDockerSpawner.stop_timeout = int(engine.stop_timeout.total_seconds())
    c.GPUDockerSpawner.client_kwargs = {
        "timeout": engine.call_timeout.total_seconds(),
        "max_pool_size": engine.calls,
    }


def _configure_pages(c: Config, adapters: Adapters, desk: Desk) -> None:
    c.JupyterHub.template_paths = [str(Path(nbgpu.spawner.__file__).parent / "templates")]
    c.JupyterHub.template_vars = build_template_vars(desk) | {
        "nbgpu_simulated": adapters.inventory.snapshot().simulated,
        "nbgpu_local": adapters.is_local,
    }
