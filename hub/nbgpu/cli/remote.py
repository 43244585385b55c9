"""Where the commands that ask the running service find it: the deployment on this machine, or one elsewhere."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nbgpu.client import Client

TOKEN_VARIABLE = "NBGPU_TOKEN"  # noqa: S105 - the name of the variable that has it
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        help=f"A service elsewhere, like https://hub.example.org/services/nbgpu; its token in {TOKEN_VARIABLE}.",
    ),
]


def open_service(data: Path, url: str | None) -> "Client":
    """Return a client of the service. Raises InvalidOptions, SetupError, ServiceUnavailable."""
    from nbgpu.client import Client
    from nbgpu.core.errors import InvalidOptions, SetupError

    if url is not None:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            raise InvalidOptions(f"--url needs a token of that hub in {TOKEN_VARIABLE}: its page Token makes one.")
        return Client(url, token)
    from nbgpu.machine.teardown import find_deployment
    from nbgpu.wiring.client import open_client

    deployment = find_deployment(data.resolve())
    if deployment is None:
        raise SetupError(f"{data} is no data folder of nbgpu. Give it with --data, or a service elsewhere with --url.")
    return open_client(deployment)
