"""A statement as the command prints and writes it: a table, CSV, and the ledger's lines in FOCUS's columns."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path

import typer

from nbgpu.cli.files import write_csv
from nbgpu.cli.lists import show_user_text
from nbgpu.cli.output import print_table
from nbgpu.core.focus import COLUMNS
from nbgpu.core.ledger import Charge
from nbgpu.core.statement import Amounts, Part, Question, totals
from nbgpu.core.statement_form import focus_rows, statement_header, statement_rows
from nbgpu.core.units import render_price


def print_statement(question: Question, lines: Sequence[Part], *, zone: str) -> None:
    """Print a table that ends with the sums."""
    typer.echo(f"{question.first_day} to {question.last_day}, {zone}")
    rows = [[*map(show_user_text, line.key), *_show(line.amounts, line.currency)] for line in lines]
    name = ["Total"] + [""] * (len(question.dimensions) - 1)
    sums = [[*name, *_show(amounts, currency)] for currency, amounts in totals(lines).items()]
    print_table(
        [*(each.capitalize() for each in question.dimensions), "Server h", "GPU h", "Busy h", "Cost", "Not posted", ""],
        [*rows, *sums] if rows else [],
        empty="Nothing was used.",
    )
    if any(line.amounts.estimated for line in lines):
        typer.echo("estimated: the end of a session was seen by nobody; it is charged to when it was last seen.")


def _show(amounts: Amounts, currency: str) -> list[str]:
    return [
        _show_hours(amounts.server_seconds * 1000),
        _show_hours(amounts.gpu_seconds * 1000),
        "n/a" if amounts.busy_ms is None else _show_hours(amounts.busy_ms),
        f"{render_price(amounts.cost)} {currency}".strip(),
        f"{render_price(amounts.accrued)}" if amounts.accrued else "",
        "estimated" if amounts.estimated else "",
    ]


def _show_hours(milliseconds: int) -> str:
    return f"{Decimal(milliseconds) / 3_600_000:.2f}"


def write_statement(file: Path, question: Question, lines: Iterable[Part]) -> None:
    """Write a CSV file: a row a line, without sums; costs as exact decimals."""
    write_csv(file, statement_header(question), statement_rows(lines))


def write_focus(file: Path, charges: Iterable[tuple[Charge, bool]], *, account_id: str) -> None:
    """Write charges, each with whether it is posted, as a CSV file in FOCUS's columns."""
    write_csv(file, COLUMNS, focus_rows(charges, account_id=account_id))
