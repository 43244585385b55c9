"""`nbgpu usage`: what was used and what it cost; and whether the ledger is as it was posted."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from nbgpu.cli.lists import open_site
from nbgpu.cli.output import JsonOption, print_json
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption
from nbgpu.cli.statement import print_statement, write_focus, write_statement
from nbgpu.core.statement import Dimension

app = typer.Typer(invoke_without_command=True)


@app.callback()
def usage(
    context: typer.Context,
    *,
    by: Annotated[list[Dimension] | None, typer.Option("--by", help="What lines are of; several in order.")] = None,
    month: Annotated[str | None, typer.Option("--month", help="Like 2026-11; the present one by default.")] = None,
    first: Annotated[str | None, typer.Option("--from", help="First day, like 2026-11-01.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day, which is included; today by default.")] = None,
    zone: Annotated[
        str | None, typer.Option("--timezone", help="Whose midnights count. Default: that of [billing].")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Of this user only.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="Of this group only.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write a CSV file; - is standard output.")] = None,
    focus: Annotated[
        Path | None,
        typer.Option("--focus", help="Write the ledger's lines in FOCUS 1.0 columns; - is standard output."),
    ] = None,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add up what was used and what it cost: leased time from the ledger, what runs up to now."""
    if context.invoked_subcommand is not None:
        return
    from nbgpu.core.statement_form import find_zone, parse_question, to_plain

    site, now = open_site(data, config), datetime.now(UTC)
    there = find_zone(zone or site.settings.billing.timezone)
    question = parse_question(
        by or [],
        month=month,
        first=first,
        last=last,
        today=now.astimezone(there).date(),
        zone=there,
        username=user,
        billing_group=group,
        mark="--",
    )
    if focus is not None:
        write_focus(focus, site.statements.charges(question, now), account_id=site.deployment.prefix)
        return
    lines = site.statements.read(question, now)
    if csv is not None:
        write_statement(csv, question, lines)
    elif as_json:
        print_json(to_plain(question, lines) | {"timezone": str(there), "as_of": now.isoformat(timespec="seconds")})
    else:
        print_statement(question, lines, zone=str(there))


@app.command()
def verify(
    *,
    head: Annotated[
        str | None, typer.Option("--head", help="The digest that an earlier check printed: nothing since is cut off.")
    ] = None,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that no line of the ledger was changed, taken out or put in. Exit code 1 where one was."""
    verdict = open_site(data, config).ledger.verify(head=head)
    if as_json:
        print_json(asdict(verdict))
    elif verdict.broken_from is None:
        typer.echo(f"The ledger is as it was posted: {verdict.charges} lines in {verdict.seals} sealed batches.")
        typer.echo(f"Newest digest: {verdict.head}")
        typer.echo("Keep it elsewhere: with --head a later check proves that nothing was cut off.")
    else:
        typer.echo(
            f"The ledger is NOT as it was posted: from line {verdict.broken_from} on something was changed, taken out "
            "or put in. Compare it with a backup (nbgpu db backup)."
        )
    if verdict.broken_from is not None:
        raise typer.Exit(1)
