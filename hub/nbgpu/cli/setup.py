"""`nbgpu setup`, `nbgpu down` and `nbgpu purge`: the machine and what runs on it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from nbgpu.core.errors import SetupError

DataOption = Annotated[
    Path, typer.Option("--data", envvar="NBGPU_DATA", help="The deployment's data folder.", show_default=True)
]
DEFAULT_DATA = Path(".nbgpu")
ConfigOption = Annotated[
    Path | None, typer.Option(help="Settings file. Default: nbgpu.toml here, else the one that came with nbgpu.")
]


def setup(
    *,
    for_tests: Annotated[bool, typer.Option("--for-tests", help="Bring what only the test suite needs, too.")] = False,
) -> None:
    """Bring what the machine lacks: tools, a Docker engine, the proxy, the base image. Safe to repeat."""
    from nbgpu.machine.engine_choice import bring_engine
    from nbgpu.machine.host import Host
    from nbgpu.machine.serve import find_settings
    from nbgpu.settings import load

    wanted = "docker" if for_tests else load(find_settings(None)).engine.kind
    bring_engine(Host(), wanted, typer.echo, for_tests=for_tests)


def down(data: DataOption = DEFAULT_DATA, config: ConfigOption = None) -> None:
    """End the hub and all notebooks of a deployment. Homes and data stay."""
    from nbgpu.machine.teardown import find_deployment, release_leases, take_down

    deployment = find_deployment(data.resolve())
    if deployment is None:
        typer.echo(f"There is no deployment in {data}: nothing to end.")
        return
    take_down(deployment, typer.echo)
    release_leases(deployment, config, typer.echo)


def purge(
    data: DataOption = DEFAULT_DATA,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """End a deployment and delete its data folder and everybody's home volumes."""
    from nbgpu.machine.teardown import check_deletable, find_deployment
    from nbgpu.machine.teardown import purge as delete

    deployment = find_deployment(data.resolve())
    if deployment is None:
        typer.echo(f"There is no deployment in {data}: nothing to delete.")
        return
    check_deletable(deployment.data)
    if not yes:
        if not sys.stdin.isatty():
            raise SetupError("purge deletes everybody's files: confirm with --yes (make purge YES=1)")
        typer.confirm(f"Delete {deployment.data} and all home volumes of {deployment.prefix}?", abort=True)
    delete(deployment, typer.echo)
