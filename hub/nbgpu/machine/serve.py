"""`nbgpu run` from start to end, as a table of contents."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nbgpu.core.errors import SetupError
from nbgpu.images.catalog import load_catalog
from nbgpu.machine.engine_choice import ensure_engine_of
from nbgpu.machine.files import find_site_file
from nbgpu.machine.host import Host
from nbgpu.machine.hub import Hub, Launch
from nbgpu.machine.notebook import notebook_python
from nbgpu.machine.processes import check_port, end_hub, forget_lost_proxy, only_hub
from nbgpu.machine.proxy import default_cache, ensure_proxy
from nbgpu.settings import Settings, load
from nbgpu.wiring.deployment import DATA_VARIABLE, open_deployment
from nbgpu.wiring.local import PYTHON_VARIABLE

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Say = Callable[[str], None]


def serve(data: Path, *, port: int, config: Path | None, say: Say) -> None:
    """Set up, start the hub, say where it is, and wait for Ctrl-C or the hub's end. Errors are SetupErrors."""
    settings_file = find_settings(config)
    settings = load(settings_file, images=load_catalog().images)
    if not data.exists():
        check_port(settings.hub.address, port)  # before a folder is made for nothing
    os.environ[DATA_VARIABLE] = str(data)
    deployment = open_deployment(data)
    with only_hub(deployment):
        end_hub(deployment)  # one whose `nbgpu run` was killed: it is ending, or hangs
        forget_lost_proxy(deployment)
        check_port(settings.hub.address, port)
        host = Host()
        if ensure_engine_of(deployment, settings, host, say) == "local":
            os.environ[PYTHON_VARIABLE] = str(notebook_python(default_cache()))
        launch = Launch(
            deployment=deployment,
            address=settings.hub.address,
            port=port,
            settings_file=settings_file,
            hub_config=require_site_file("jupyterhub_config.py"),
            proxy_command=tuple(ensure_proxy(host, default_cache(), lambda _: None)),
        )
        watch(launch, settings, say)


def watch(launch: Launch, settings: Settings, say: Say) -> None:
    """Run the hub until it is told to stop; it never outlives this call."""
    with stop_event() as stop:
        say(f"Hub: starting (log: {launch.deployment.data / 'hub.log'})")
        hub = Hub(launch, say=say)
        try:
            if hub.wait_until_ready(stop):
                say(greeting(launch, settings))
                hub.wait(stop)
        finally:
            hub.stop()
    say("Hub: stopped. It leaves notebooks as they are: the next `make run` serves them, `make down` ends them.")


def greeting(launch: Launch, settings: Settings) -> str:
    """Return what a person needs to get in."""
    lines = ["", f"nbgpu serves on {launch.url}"]
    if settings.auth.demo:
        secret = launch.deployment.secret
        lines += [
            f"  log in with any name and the password  {secret('demo-password', bytes_=6)}",
            f"  or as admin with the password          {secret('demo-admin-password', bytes_=20)}",
        ]
        secret(launch.deployment.admin_token_file.name)
    lines += [f"  scripts: an admin's API token is in {launch.deployment.admin_token_file}"]
    return "\n".join([*lines, "Ctrl-C stops the hub and leaves the notebooks.", ""])


def find_settings(config: Path | None) -> Path:
    """Return the settings file: the one asked for, nbgpu.toml in the working folder, or the one that came with us."""
    if config is not None:
        if not config.is_file():
            raise SetupError(f"There is no settings file {config}: give another with --config (make run CONFIG=…)")
        return config.resolve()
    here = Path("nbgpu.toml").resolve()
    return here if here.is_file() else require_site_file("nbgpu.toml")


def require_site_file(name: str) -> Path:
    """Return a file that comes with nbgpu. SetupError where the installation lacks it."""
    path = find_site_file(name)
    if path is None:
        raise SetupError(f"{name} is neither in a checkout nor installed: install nbgpu anew")
    return path


@contextmanager
def stop_event() -> Iterator[threading.Event]:
    """Return an event that Ctrl-C, SIGTERM and a closed terminal set, instead of ending this process."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in STOP_SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
