"""Statements as answers of the API and the page alike: what a request asks for, and the files."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from tornado.web import RequestHandler

from nbgpu.core.cells import Cell
from nbgpu.core.errors import InvalidOptions
from nbgpu.core.focus import COLUMNS
from nbgpu.core.statement import Dimension, Question
from nbgpu.core.statement_form import find_zone, focus_rows, parse_question, statement_header, statement_rows, to_plain
from nbgpu.service.books import Books
from nbgpu.service.csv_file import write_csv
from nbgpu.service.operations import DAY, Parameter

CHUNK = 2**16  # bytes
FORMATS = ("json", "csv", "focus")
STATEMENT = (
    Parameter(
        name="by",
        description=f"What lines are of: {', '.join(Dimension)}; several with commas, in order. By default user.",
    ),
    Parameter(
        name="month",
        description="A month like 2026-11; by default this one.",
        schema={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}$"},
    ),
    Parameter(name="from", description="The first day, like 2026-11-01, instead of a month.", schema=DAY),
    Parameter(name="to", description="The last day, which is included; by default today.", schema=DAY),
    Parameter(name="timezone", description="Whose midnights count; by default that of the settings."),
    Parameter(name="user", description="Of this user only."),
    Parameter(name="group", description="Of this group only."),
    Parameter(
        name="format",
        description="focus: the ledger's single lines as CSV in the columns of FOCUS 1.0.",
        schema={"type": "string", "enum": list(FORMATS), "default": "json"},
    ),
)
Turn = Callable[[], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a statement is asked for, by whose midnights and as of when."""

    question: Question
    zone: ZoneInfo
    now: datetime


def parse_asked(
    books: Books,
    text: Callable[[str], str | None],
    by: Sequence[Dimension],
    *,
    user: str | None,
    zone_name: str | None = None,
) -> Asked:
    """Return what a request's parameters, which `text` gives, ask for. Blocks: a zone is a file.

    Raises InvalidOptions.
    """
    zone, now = find_zone(zone_name or books.timezone), books.clock()
    question = parse_question(
        by,
        month=text("month"),
        first=text("from"),
        last=text("to"),
        today=now.astimezone(zone).date(),
        zone=zone,
        username=user,
        billing_group=text("group"),
    )
    return Asked(question=question, zone=zone, now=now)


async def answer_statement(handler: RequestHandler, books: Books, asked: Asked, *, kind: str, turn: Turn) -> None:
    """Answer with a statement as one of FORMATS. Raises InvalidOptions for another."""
    question, now = asked.question, asked.now
    if kind == "focus":
        rows = focus_rows(books.statements.charges(question, now), account_id=books.account_id)
        await _send(handler, f"focus-{question.first_day}.csv", COLUMNS, rows, turn=turn)
        return
    if kind not in FORMATS:
        raise InvalidOptions(f"There is no format “{kind[:40]}”; there are: {', '.join(FORMATS)}.")
    async with turn():
        lines = await asyncio.to_thread(books.statements.read, question, now)
    if kind == "csv":
        name = f"usage-{question.first_day}.csv"
        await _send(handler, name, statement_header(question), statement_rows(lines), turn=turn)
        return
    plain: dict[str, Any] = to_plain(question, lines)
    handler.write(plain | {"timezone": str(asked.zone), "as_of": now.isoformat(timespec="seconds")})


def parse_dimensions(texts: Sequence[str]) -> list[Dimension]:
    """Return what lines are of; several may be in one text, with commas. Raises InvalidOptions."""
    names = [name for text in texts for name in text.split(",") if name]
    try:
        return [Dimension(name) for name in names]
    except ValueError:
        unknown = next(name for name in names if name not in set(Dimension))
        raise InvalidOptions(f"by “{unknown[:40]}” is not known; there are: {', '.join(Dimension)}.") from None


async def _send(
    handler: RequestHandler, name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]], *, turn: Turn
) -> None:
    """Send a CSV file piece by piece: a year's lines do not go through memory, and a slow reader holds no turn."""
    async with turn():
        file = await asyncio.to_thread(write_csv, header, rows)
    handler.set_header("Content-Type", "text/csv; charset=utf-8")
    handler.set_header("Content-Disposition", f'attachment; filename="{name}"')
    with file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            handler.write(chunk)
            await handler.flush()
