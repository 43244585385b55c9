"""`nbgpu idle`: which servers do nothing, why each still runs, and keeping one running for longer."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nbgpu.cli.author import find_author
from nbgpu.cli.idle_lines import explain_session, show_since, show_state, show_stop, to_end
from nbgpu.cli.lists import open_site, show_time, show_user_text
from nbgpu.cli.output import JsonOption, print_json, print_table
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption
from nbgpu.cli.spans import parse_span_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbgpu.core.idle_view import IdleView
    from nbgpu.core.leases import ServerRef
    from nbgpu.wiring.adapters import Adapters

app = typer.Typer(invoke_without_command=True)
ServerArgument = Annotated[str, typer.Argument(metavar="USER[/SERVER]", help="A user's server; the first, or a named.")]


@app.callback()
def idle(
    context: typer.Context,
    *,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List all running servers: what is found of each, since when, and when it stops if nothing changes."""
    if context.invoked_subcommand is not None:
        return
    site = open_site(data, config)
    views = site.idle.running(None)
    if as_json:
        print_json(_to_plain(site, views))
        return
    print_table(
        ["Server", "Flavor", "Found", "Since", "Stops"],
        [
            [
                show_user_text(str(view.server)),
                view.flavor,
                show_state(view),
                show_since(view),
                show_stop(view),
            ]
            for view in views
        ],
        empty="No server runs.",
    )


@app.command()
def explain(
    server: ServerArgument,
    *,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why a server runs: every signal, and what happens if nothing changes. Of one that ended: why."""
    site = open_site(data, config)
    view = _find(site, server)
    if as_json:
        print_json(_to_plain(site, [view])[0])
        return
    for line in explain_session(site, view):
        typer.echo(show_user_text(line))


@app.command()
def extend(
    server: ServerArgument,
    *,
    by: Annotated[
        str | None, typer.Option("--by", help='How much longer, like "2 h"; without it as long as one click gives.')
    ] = None,
    time_limit: Annotated[
        bool, typer.Option("--time-limit", help="Its time limit, instead of when it is stopped for being idle.")
    ] = False,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep a server running for longer, past what its person may ask for. It is in the audit log."""
    from nbgpu.core.errors import InvalidOptions

    site, author = open_site(data, config), find_author()
    view = _find(site, server)
    seconds = int(parse_span_option(by, "--by").total_seconds()) if by is not None else 0
    if time_limit:
        if not seconds:
            raise InvalidOptions('How much longer? Give --by, like --by "2 h".')
        view = site.idle.extend_time_limit(view.session_id, seconds, by=author)
    else:
        view = site.idle.extend(view.session_id, seconds, by=author, as_admin=True)
    if as_json:
        print_json(_to_plain(site, [view])[0])
        return
    until = view.until if time_limit else to_end(view.extension.until)
    said = "It may run until" if time_limit else "It is not stopped for being idle before"
    typer.echo(f"{said} {show_time(until)}." if until is not None else "It is extended.")


def _find(site: "Adapters", server: str) -> "IdleView":
    """Return a server's newest session. Raises UnknownSession."""
    from nbgpu.core.errors import UnknownSession

    view = site.idle.newest(_parse_server(server))
    if view is None:
        raise UnknownSession(f"The server {server[:80]} has never run. `nbgpu idle` lists those that run.")
    return view


def _parse_server(text: str) -> "ServerRef":
    from nbgpu.core.leases import ServerRef

    username, _, servername = text.partition("/")
    return ServerRef(username, servername)


def _to_plain(site: "Adapters", views: "Sequence[IdleView]") -> list[dict[str, Any]]:
    from nbgpu.core.session_status import plain_session

    costs = site.limits.costs([view.session_id for view in views])
    return [
        plain_session(
            view,
            now=site.clock(),
            zone=site.settings.policies.zone,
            flavor=site.menu.get(view.flavor),
            currency=site.settings.billing.currency,
            cost=costs.get(view.session_id),
        )
        for view in views
    ]
