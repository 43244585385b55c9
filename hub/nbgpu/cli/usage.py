"""`nbgpu usage`: what was used and what it cost; and whether the ledger is as it was posted."""

from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Annotated

import typer

from nbgpu.cli.lists import open_site
from nbgpu.cli.output import JsonOption, print_json
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption
from nbgpu.cli.statement import print_statement, to_plain, write_focus, write_statement
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
    from nbgpu.core.statement import ask

    site, now = open_site(data, config), datetime.now(UTC)
    there = _find_zone(zone or site.settings.billing.timezone)
    first_day, last_day = _find_days(month, first, last, now.astimezone(there).date())
    try:
        question = ask(by or [Dimension.USER], first_day, last_day, there, username=user, billing_group=group)
    except (ValueError, OverflowError) as error:
        raise _refuse(f"No statement can be made: {error}.") from None
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


def _find_zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise _refuse(
            f'There is no time zone “{name[:60]}”: give a name of the tz database, like "Europe/Berlin".'
        ) from None


def _find_days(month: str | None, first: str | None, last: str | None, today: date) -> tuple[date, date]:
    """Return the first and the last day that are asked for."""
    if month is not None and (first is not None or last is not None):
        raise _refuse("Give either --month, or --from and --to.")
    if first is None and last is not None:
        raise _refuse("--to needs --from: the first day.")
    if first is not None:
        days = _parse_day(first, "--from"), _parse_day(last, "--to") if last is not None else today
        if days[0] > days[1]:
            raise _refuse(f"--from {days[0]} is after --to {days[1]}.")
        return days
    start = _parse_day(f"{month}-01", "--month") if month is not None else today.replace(day=1)
    return start, (start.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)


def _parse_day(text: str, option: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    if not 1970 <= day.year < 9999:
        like = "2026-11" if option == "--month" else "2026-11-30"
        raise _refuse(f"{option} must be a date like {like}.")
    return day


def _refuse(sentence: str) -> Exception:
    from nbgpu.core.errors import InvalidOptions

    return InvalidOptions(sentence)
