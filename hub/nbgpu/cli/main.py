"""The `nbgpu` command: each group of subcommands is a module of this package."""

import sys

import typer

from nbgpu.core.errors import NbgpuError

app = typer.Typer(
    name="nbgpu",
    help="Run and look after a managed GPU notebook platform.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; an error of ours is one line and exit code 1, never a traceback."""
    try:
        app()
    except NbgpuError as error:
        sys.stderr.write(f"nbgpu: {error}\n")
        raise SystemExit(1) from None
