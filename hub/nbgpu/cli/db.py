"""`nbgpu db`: look after the database of leases, sessions and money."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nbgpu.cli.author import find_author
from nbgpu.cli.lists import open_site
from nbgpu.cli.output import JsonOption, print_json, print_table
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption
from nbgpu.core.units import render_size

if TYPE_CHECKING:
    from sqlalchemy import Engine

app = typer.Typer(help="Look after the database: upgrade, check, backup, restore.", no_args_is_help=True)


@app.command()
def upgrade(*, data: DataOption = DEFAULT_DATA, config: ConfigOption = None) -> None:
    """Bring the database's schema up to date. The hub's start does so by itself; this tells what was done."""
    from nbgpu.store.database import ensure_schema

    done = ensure_schema(_connect(data, config), actor=_actor())
    if done.backup is not None:
        typer.echo(f"Backup: {done.backup}")
    if not done.changed:
        typer.echo(f"Schema {done.after}: up to date, nothing to do.")
    elif done.before is None:
        typer.echo(f"Schema: made, {done.after}.")
    else:
        typer.echo(f"Schema: upgraded from {done.before} to {done.after}.")


@app.command()
def check(*, data: DataOption = DEFAULT_DATA, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check that the database is sound, at the newest schema, and can be written. Exit code 1 where something fails."""
    from nbgpu.core.findings import Level
    from nbgpu.machine.database import examine_database

    findings = examine_database(_connect(data, config))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_table(
            ["", "Check", "Found", "What to do"],
            [[finding.level, finding.subject, finding.found, finding.advice] for finding in findings],
            empty="",
        )
    if any(finding.level is Level.FAIL for finding in findings):
        raise typer.Exit(1)


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Write a verified copy of the database to a file, while the hub goes on."""
    from nbgpu.store.backup import back_up

    done = back_up(_connect(data, config), file, force=force, progress=_progress())
    typer.echo(f"Backup: {done.file}, {render_size(done.size)}, schema {done.revision}, verified.")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `nbgpu db backup` wrote.")],
    *,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Put a backup in the database's place, while no hub runs. The database that was there is kept beside it."""
    from nbgpu.store.restore import restore as put_back

    done = put_back(_connect(data, config), file, actor=_actor())
    if done.aside is not None:
        typer.echo(f"Kept: the database that was there is {done.aside}.")
    upgraded = f", upgraded to {done.upgraded_to}" if done.upgraded_to != done.revision else ""
    typer.echo(f"Restored: {file}, schema {done.revision}{upgraded}.")
    typer.echo("The hub's next start compares it with what runs, and mends what disagrees: nbgpu audit lists that.")


def _connect(data: Path, config: Path | None) -> "Engine":
    """Return the site's database, which is not opened yet. Raises NbgpuError."""
    from nbgpu.store.database import connect_database

    return connect_database(open_site(data, config).database_url)


def _actor() -> str:
    """Return who runs the command, for the audit log."""
    try:
        return f"{find_author()} (nbgpu db)"
    except (KeyError, OSError):  # an account without a name
        return "nbgpu db"


def _progress() -> Callable[[int, int], None]:
    """Return what tells each tenth of the way, of a copy that takes more than one step."""
    told = 0

    def tell(done: int, total: int) -> None:
        nonlocal told
        tenths = 10 * done // total if total else 10
        if told < tenths < 10:
            typer.echo(f"Copied {tenths}0 %")
        told = max(told, tenths)

    return tell
