"""The `nbgpu` command: each group of subcommands is a module of this package.

The modules import what they need inside their functions: `nbgpu --help` starts fast.
"""

import importlib.metadata
import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from nbgpu.cli import db, gpus, idle, images, prices, sessions, usage
from nbgpu.cli.doctor import doctor
from nbgpu.cli.homes import homes
from nbgpu.cli.lists import flavors, leases
from nbgpu.cli.money import credit
from nbgpu.cli.notices import maintenance_app, notices_app
from nbgpu.cli.policies import budgets_app, credits_app, quotas_app
from nbgpu.cli.repairs import audit, reconcile
from nbgpu.cli.run import run
from nbgpu.cli.setup import down, purge, setup
from nbgpu.core.errors import InvalidOptions, NbgpuError

app = typer.Typer(
    name="nbgpu",
    help="Run and look after a managed GPU notebook platform.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _show_version(asked: bool) -> None:  # noqa: FBT001 - typer's signature
    if asked:
        typer.echo(f"nbgpu {importlib.metadata.version('nbgpu')}")
        raise typer.Exit


@app.callback()
def _nbgpu(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Run and look after a managed GPU notebook platform."""


for command in (run, setup, down, purge, flavors, leases, reconcile, audit, homes, doctor, credit):
    app.command()(command)
app.add_typer(gpus.app, name="gpus")
app.add_typer(images.app, name="images")
app.add_typer(db.app, name="db")
app.add_typer(prices.app, name="prices")
app.add_typer(usage.app, name="usage")
app.add_typer(idle.app, name="idle")
app.add_typer(sessions.app, name="sessions")
app.add_typer(budgets_app, name="budgets")
app.add_typer(quotas_app, name="quotas")
app.add_typer(credits_app, name="credits")
app.add_typer(notices_app, name="notices")
app.add_typer(maintenance_app, name="maintenance")


def check_arguments(arguments: Iterable[str]) -> None:
    """Raise InvalidOptions for a text that is not UTF-8: no database, no file and no terminal takes it."""
    for text in arguments:
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = text.encode("utf-8", "surrogateescape").decode(errors="replace")[:80]
            raise InvalidOptions(f"The argument “{shown}” is not UTF-8. Type it anew in a terminal of UTF-8.") from None


def main() -> None:
    """Run the command line; an error of ours is its message and exit code 1, never a traceback."""
    try:
        check_arguments(sys.argv[1:])
        app()
    except NbgpuError as error:
        sys.stderr.write(f"nbgpu: {error}\n")
        raise SystemExit(1) from None
