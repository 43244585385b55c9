"""A statement as people and programs read it: a table, CSV, JSON, and the ledger's lines in FOCUS's columns."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import typer

from nbgpu.cli.files import write_csv
from nbgpu.cli.lists import show_user_text
from nbgpu.cli.output import print_table
from nbgpu.core.cells import Cell
from nbgpu.core.focus import COLUMNS, to_focus
from nbgpu.core.ledger import Charge
from nbgpu.core.statement import Amounts, Part, Question, totals
from nbgpu.core.units import MICRO, render_price

_AMOUNTS = ("server_seconds", "leased_gpu_seconds", "busy_gpu_seconds", "cost", "accrued_cost", "estimated", "currency")


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
    write_csv(file, [*question.dimensions, *_AMOUNTS], (_to_cells(line) for line in lines))


def _to_cells(line: Part) -> list[Cell]:
    amounts = line.amounts
    return [
        *line.key,
        amounts.server_seconds,
        amounts.gpu_seconds,
        None if amounts.busy_ms is None else Decimal(amounts.busy_ms) / 1000,
        Decimal(amounts.cost) / MICRO,
        Decimal(amounts.accrued) / MICRO,
        str(amounts.estimated).lower(),
        line.currency,
    ]


def write_focus(file: Path, charges: Iterable[tuple[Charge, bool]], *, account_id: str) -> None:
    """Write charges, each with whether it is posted, as a CSV file in FOCUS's columns."""
    rows = (to_focus(charge, posted=posted, account_id=account_id) for charge, posted in charges)
    write_csv(file, COLUMNS, ([row.get(column) for column in COLUMNS] for row in rows))


def to_plain(question: Question, lines: Sequence[Part]) -> dict[str, Any]:
    """Return a statement for JSON; costs in micro-units."""
    by = [str(each) for each in question.dimensions]
    return {
        "from": question.first_day.isoformat(),
        "to": question.last_day.isoformat(),
        "by": by,
        "lines": [dict(zip(by, line.key, strict=True)) | _plain_amounts(line.amounts, line.currency) for line in lines],
        "totals": [_plain_amounts(amounts, currency) for currency, amounts in totals(lines).items()],
    }


def _plain_amounts(amounts: Amounts, currency: str) -> dict[str, Any]:
    return {
        "server_seconds": amounts.server_seconds,
        "leased_gpu_seconds": amounts.gpu_seconds,
        "busy_gpu_seconds": None if amounts.busy_ms is None else amounts.busy_ms / 1000,
        "cost_micro": amounts.cost,
        "accrued_cost_micro": amounts.accrued,
        "estimated": amounts.estimated,
        "currency": currency,
    }
