"""`nbgpu budgets set`, `quotas set` and their like: what is set while the site runs, one by one or by the file."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from nbgpu.cli.author import find_author
from nbgpu.cli.lists import open_site
from nbgpu.cli.money import budgets, quotas
from nbgpu.cli.output import JsonOption
from nbgpu.cli.policy_lines import describe_preview, list_policies
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption
from nbgpu.core.policy_edits import PolicyChange, PolicyKind
from nbgpu.core.units import render_price

if TYPE_CHECKING:
    from nbgpu.wiring.adapters import Adapters

SHOW = "show"


class _ShowsByItself(TyperGroup):
    """A group whose command `show` may be left out: `nbgpu quotas ann`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put it in where no command is named."""
        is_named = not args or args[0] in self.commands or args[0] == "--help"
        return super().parse_args(ctx, args if is_named else [SHOW, *args])


budgets_app = typer.Typer(invoke_without_command=True)
quotas_app = typer.Typer(cls=_ShowsByItself, no_args_is_help=True, help="The limits that hold for people.")
credits_app = typer.Typer(no_args_is_help=True, help="Money given back to many people.")
quotas_app.command(SHOW)(quotas)

Name = Annotated[str, typer.Argument(help="Its short name.")]
File = Annotated[Path, typer.Argument(help="A CSV file; - reads what is piped in.")]
Preview = Annotated[bool, typer.Option("--preview", help="Tell what it would do, and do nothing.")]
User = Annotated[str, typer.Option("--user", help="User it is for.")]
Group = Annotated[str, typer.Option("--group", help="Group it is for.")]
Window = Annotated[str, typer.Option("--window", help='"day", "week", "month"; of a quota a span like "7 d", too.')]


@budgets_app.callback()
def show_budgets(
    context: typer.Context,
    *,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List budgets as they stand: spent, held by running servers, left, and when all will be spent."""
    if context.invoked_subcommand is None:
        budgets(data=data, config=config, as_json=as_json)


@budgets_app.command("list")
def list_budgets(*, data: DataOption = DEFAULT_DATA, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the budgets that are set: name, for whom, what, and who set it."""
    list_policies(open_site(data, config), PolicyKind.BUDGET, as_json=as_json)


@quotas_app.command("list")
def list_quotas(*, data: DataOption = DEFAULT_DATA, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the quotas that are set: name, for whom, what, and who set it."""
    list_policies(open_site(data, config), PolicyKind.QUOTA, as_json=as_json)


@budgets_app.command("set")
def set_budget(
    name: Name,
    *,
    amount: Annotated[str, typer.Option("--amount", help='What may be spent in a window, like "100.00".')],
    user: User = "",
    group: Group = "",
    window: Window = "",
    first_day: Annotated[str, typer.Option("--first-day", help="First day of a term: 2026-10-01.")] = "",
    last_day: Annotated[str, typer.Option("--last-day", help="Last day of that term.")] = "",
    alerts: Annotated[str, typer.Option("--alerts", help='Shares that are told, in percent: "50 80 100".')] = "",
    grace: Annotated[str, typer.Option("--grace", help='How long servers go on when all is spent: "10 min".')] = "",
    preview: Preview = False,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Set a budget, all of it: a new one, or one that was set before."""
    fields = {"name": name, "user": user, "group": group, "amount": amount, "window": window}
    fields |= {"first_day": first_day, "last_day": last_day, "alerts": alerts, "grace": grace}
    site = open_site(data, config)
    _do(site, [site.policy_desk.draft(PolicyKind.BUDGET, fields)], only=preview)


@quotas_app.command("set")
def set_quota(
    name: Name,
    *,
    user: User = "",
    group: Group = "",
    flavor: Annotated[str, typer.Option("--flavor", help="Flavor that alone is counted and limited.")] = "",
    gpu_hours: Annotated[str, typer.Option("--gpu-hours", help="Hours of GPUs in --window.")] = "",
    window: Window = "",
    servers: Annotated[str, typer.Option("--servers", help="Servers at one time.")] = "",
    gpus: Annotated[str, typer.Option("--gpus", help="GPUs at one time.")] = "",
    longest: Annotated[str, typer.Option("--longest", help='Longest session, like "4 h".')] = "",
    preview: Preview = False,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Set a quota, all of it: a new one, or one that was set before."""
    fields = {"name": name, "user": user, "group": group, "flavor": flavor, "gpu_hours": gpu_hours}
    fields |= {"window": window, "servers": servers, "gpus": gpus, "longest": longest}
    site = open_site(data, config)
    _do(site, [site.policy_desk.draft(PolicyKind.QUOTA, fields)], only=preview)


@budgets_app.command("remove")
def remove_budget(
    name: Name, *, preview: Preview = False, data: DataOption = DEFAULT_DATA, config: ConfigOption = None
) -> None:
    """Remove a budget that was set; one of nbgpu.toml is removed there."""
    _remove(open_site(data, config), PolicyKind.BUDGET, name, only=preview)


@quotas_app.command("remove")
def remove_quota(
    name: Name, *, preview: Preview = False, data: DataOption = DEFAULT_DATA, config: ConfigOption = None
) -> None:
    """Remove a quota that was set; one of nbgpu.toml is removed there."""
    _remove(open_site(data, config), PolicyKind.QUOTA, name, only=preview)


@budgets_app.command("import")
def import_budgets(
    file: File, *, preview: Preview = False, data: DataOption = DEFAULT_DATA, config: ConfigOption = None
) -> None:
    """Set all budgets of a CSV file, or none where a line is wrong."""
    _import(open_site(data, config), PolicyKind.BUDGET, file, only=preview)


@quotas_app.command("import")
def import_quotas(
    file: File, *, preview: Preview = False, data: DataOption = DEFAULT_DATA, config: ConfigOption = None
) -> None:
    """Set all quotas of a CSV file, or none where a line is wrong."""
    _import(open_site(data, config), PolicyKind.QUOTA, file, only=preview)


@credits_app.callback()
def _credits() -> None:
    """Money given back to many people."""


@credits_app.command("import")
def import_credits(
    file: File,
    *,
    preview: Preview = False,
    new: Annotated[bool, typer.Option("--new", help="To people who never had a server, too.")] = False,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Give all credits of a CSV file (user, amount, reason), or none where a line is wrong; none is given twice."""
    from nbgpu.core.errors import InvalidOptions
    from nbgpu.service.policy_import import explain_mistakes

    desk, by = open_site(data, config).credit_desk, find_author()
    found = desk.read(_read(file), by=by, with_unknown=new)
    if found.mistakes:
        raise InvalidOptions(explain_mistakes(found.mistakes))
    if not preview:
        desk.give(found, by=by)
    verb = "would be given" if preview else "are given"
    total = render_price(found.total)
    typer.echo(f"{len(found.charges)} credits of {total} {desk.currency} in all {verb}; {found.known} were before.")


def _import(site: "Adapters", kind: PolicyKind, file: Path, *, only: bool) -> None:
    from nbgpu.core.errors import InvalidOptions
    from nbgpu.service.policy_import import explain_mistakes, read_policies

    found = read_policies(site.policy_desk, kind, _read(file))
    if found.mistakes:
        raise InvalidOptions(explain_mistakes(found.mistakes))
    _do(site, found.changes, only=only)


def _remove(site: "Adapters", kind: PolicyKind, name: str, *, only: bool) -> None:
    from nbgpu.service.policy_desk import removal

    entry = site.policy_desk.find(kind, name)
    _do(site, [removal(kind, name, expected=entry.revision)], only=only)


def _do(site: "Adapters", changes: Sequence[PolicyChange], *, only: bool) -> None:
    preview = site.policy_desk.preview(changes)
    if not only:
        site.policy_desk.change(changes, by=find_author())
    typer.echo("\n".join(describe_preview(preview, done=not only)))
    if only:
        typer.echo("Nothing is done: this is a preview.")


def _read(file: Path) -> str:
    """Return a file's text. Raises InvalidOptions."""
    from nbgpu.core.errors import InvalidOptions
    from nbgpu.core.import_rows import MOST_BYTES, decode_table

    try:
        if str(file) == "-":
            return decode_table(sys.stdin.buffer.read(MOST_BYTES + 1))
        with file.open("rb") as opened:
            return decode_table(opened.read(MOST_BYTES + 1))
    except OSError as error:
        raise InvalidOptions(f"{file} can't be read: {error.strerror}.") from error
