"""`nbgpu sessions`: everybody's servers as the running service tells, from this machine or from elsewhere."""

from typing import TYPE_CHECKING, Annotated

import typer

from nbgpu.cli.lists import show_time, show_user_text
from nbgpu.cli.output import JsonOption, print_json, print_table, show
from nbgpu.cli.remote import UrlOption, open_service
from nbgpu.cli.setup import DEFAULT_DATA, DataOption
from nbgpu.cli.spans import parse_span_option
from nbgpu.core.session_list import Order, Wanted

if TYPE_CHECKING:
    from nbgpu.client import Client
    from nbgpu.service.session_answers import ListedSession

_NONE = {
    Wanted.RUNNING: "No such server runs.",
    Wanted.ENDED: "No such server has ended.",
    Wanted.ALL: "There is no such server.",
}
app = typer.Typer(invoke_without_command=True)
ServerArgument = Annotated[str, typer.Argument(metavar="USER[/SERVER]", help="A user's server; the first, or a named.")]


@app.callback()
def sessions(
    context: typer.Context,
    *,
    state: Annotated[Wanted, typer.Option(help="Which.")] = Wanted.RUNNING,
    user: Annotated[str | None, typer.Option(help="Of this user only.")] = None,
    flavor: Annotated[str | None, typer.Option(help="Of this flavor only, by its slug.")] = None,
    search: Annotated[str | None, typer.Option(help="Whose user, server or flavor has this text.")] = None,
    sort: Annotated[Order, typer.Option(help="By what.")] = Order.NEWEST,
    data: DataOption = DEFAULT_DATA,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """List servers: whose, since when, what they cost so far, and what is found of them."""
    if context.invoked_subcommand is not None:
        return
    with open_service(data, url) as service:
        found = list(service.sessions(state=state, user=user, flavor=flavor, search=search, sort=sort))
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
        return
    is_filtered = state is not Wanted.RUNNING or user or flavor or search
    empty = "No server runs." if not is_filtered else _NONE[state]
    columns = ["Server", "Flavor", "Started", "Cost", "Found"]
    print_table(columns, [_row(each) for each in found], empty=empty)


@app.command()
def stop(
    server: ServerArgument,
    *,
    reason: Annotated[str, typer.Option(help="Why, for its user and the audit log.")],
    data: DataOption = DEFAULT_DATA,
    url: UrlOption = None,
) -> None:
    """Stop a server; its user reads why."""
    with open_service(data, url) as service:
        service.stop(_find(service, server), reason)
    typer.echo(f"{show_user_text(server)} is being stopped.")


@app.command()
def extend(
    server: ServerArgument,
    *,
    by: Annotated[
        str | None, typer.Option("--by", help='How long, like "2 h"; without it as long as one click gives.')
    ] = None,
    data: DataOption = DEFAULT_DATA,
    url: UrlOption = None,
) -> None:
    """Keep a server from being stopped for being idle."""
    seconds = int(parse_span_option(by, "--by").total_seconds()) if by is not None else None
    with open_service(data, url) as service:
        idle = service.extend(_find(service, server), seconds).idle
    until = idle.extended_until if idle is not None else None
    typer.echo(
        f"It is not stopped for being idle before {show_time(until)}." if until is not None else "It is extended."
    )


@app.command()
def limit(
    server: ServerArgument,
    *,
    by: Annotated[str, typer.Option("--by", help='How much longer than its time limit it may run, like "2 h".')],
    data: DataOption = DEFAULT_DATA,
    url: UrlOption = None,
) -> None:
    """Let a server run past its time limit."""
    seconds = int(parse_span_option(by, "--by").total_seconds())
    with open_service(data, url) as service:
        until = service.extend_time_limit(_find(service, server), seconds).until
    typer.echo(f"It may run until {show_time(until)}." if until is not None else "Nothing limits how long it runs.")


def _row(session: "ListedSession") -> list[str]:
    from nbgpu.core.leases import ServerRef
    from nbgpu.core.units import render_money

    cost = show(None if session.cost_micro is None else render_money(session.cost_micro), f" {session.currency}")
    server = show_user_text(str(ServerRef(session.user, session.server)))
    return [server, session.flavor.slug, show_time(session.started_at), cost, show_user_text(_tell(session))]


def _tell(session: "ListedSession") -> str:
    """Return what is most worth knowing of a session."""
    if session.ended_at is not None:
        return session.end or f"Ended {show_time(session.ended_at)}."
    if session.stop is not None:
        return session.stop.text
    return session.idle.verdict if session.idle is not None else "no rule"


def _find(service: "Client", server: str) -> str:
    """Return the id of the session of a server that runs. Raises UnknownSession."""
    from nbgpu.core.errors import UnknownSession

    user, _, name = server.partition("/")
    for each in service.sessions(user=user):
        if (each.user, each.server) == (user, name):
            return each.session_id
    raise UnknownSession(f"The server {server[:80]} does not run. `nbgpu sessions` lists those that do.")
