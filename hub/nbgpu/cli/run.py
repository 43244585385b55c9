"""`nbgpu run`: set up what is missing, then serve until told to stop."""

from typing import Annotated

import typer

from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption


def run(
    port: Annotated[int, typer.Option(help="Port to serve on.", min=1, max=65535)] = 8000,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Serve the hub. Ctrl-C stops it with its proxy; notebooks go on."""
    from nbgpu.machine.serve import serve

    serve(data.resolve(), port=port, config=config, say=typer.echo)
