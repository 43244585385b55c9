"""`nbgpu notices` and `nbgpu maintenance`: what everybody is told, and whether servers are started."""

from typing import TYPE_CHECKING, Annotated

import typer

from nbgpu.cli.author import find_author
from nbgpu.cli.lists import open_site, show_time, show_user_text
from nbgpu.cli.output import JsonOption, print_json, print_table
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption
from nbgpu.cli.spans import parse_span_option

if TYPE_CHECKING:
    from nbgpu.core.maintenance import Maintenance

notices_app = typer.Typer(invoke_without_command=True)
maintenance_app = typer.Typer(invoke_without_command=True)


@notices_app.callback()
def notices(
    context: typer.Context,
    *,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the messages that everybody is shown now."""
    if context.invoked_subcommand is not None:
        return
    from nbgpu.core.session_status import plain_broadcast

    found = open_site(data, config).broadcasts.current()
    if as_json:
        print_json([plain_broadcast(each) for each in found])
        return
    rows = [[str(each.number), show_user_text(each.text), show_time(each.until), each.author] for each in found]
    print_table(["Number", "Message", "Until", "By"], rows, empty="Nothing is shown.")


@notices_app.command()
def send(
    text: Annotated[str, typer.Argument(help="What everybody is to read, at most 500 characters.")],
    *,
    span: Annotated[str, typer.Option("--for", help='For how long, like "4 h" or "2 d"; at most 31 days.')] = "1 h",
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Tell everybody: on every page, and in all notebooks within a minute."""
    length = parse_span_option(span, "--for")
    sent = open_site(data, config).broadcasts.send(text, length, by=find_author())
    typer.echo(f"Message {sent.number} is shown until {show_time(sent.until)}.")


@notices_app.command()
def withdraw(
    number: Annotated[int, typer.Argument(help="Its number, as `nbgpu notices` shows it.", min=1)],
    *,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Show a message no more."""
    open_site(data, config).broadcasts.withdraw(number, by=find_author())
    typer.echo(f"Message {number} is withdrawn.")


@maintenance_app.callback()
def maintenance(context: typer.Context, *, data: DataOption = DEFAULT_DATA, config: ConfigOption = None) -> None:
    """Tell whether servers are started, and how many run."""
    if context.invoked_subcommand is not None:
        return
    site = open_site(data, config)
    typer.echo(_describe(site.maintenance.current()))
    typer.echo(f"Servers that run: {len(site.leases.open_leases())}.")


@maintenance_app.command()
def begin(
    *,
    reason: Annotated[str, typer.Option(help="Why; everybody reads it.")],
    stop_in: Annotated[
        str | None, typer.Option("--stop-in", help='Stop what runs in so long, like "1 h"; without it servers go on.')
    ] = None,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Start no server from now on, or change maintenance that has begun."""
    span = parse_span_option(stop_in, "--stop-in") if stop_in is not None else None
    site = open_site(data, config)
    stop_at = site.clock().replace(microsecond=0) + span if span is not None else None
    typer.echo(_describe(site.maintenance.begin(reason, stop_at, by=find_author())))


@maintenance_app.command()
def end(*, data: DataOption = DEFAULT_DATA, config: ConfigOption = None) -> None:
    """Start servers again."""
    done = open_site(data, config).maintenance.end(by=find_author())
    typer.echo("Maintenance has ended: servers are started again." if done else "There is no maintenance.")


def _describe(found: "Maintenance | None") -> str:
    if found is None:
        return "There is no maintenance: servers are started."
    after = f"what runs is stopped at {show_time(found.stop_at)}" if found.stop_at else "what runs goes on"
    reason = show_user_text(found.reason)
    return f"Maintenance since {show_time(found.since)} ({reason}): no server is started, {after}."
