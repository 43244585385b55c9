"""The REST API, `/services/nbgpu/api/v1/…`: statements, budgets, quotas and prices; running servers.

Errors are problem details (RFC 9457). People read of themselves; who may read of all is in `callers`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from nbgpu.core.cells import Cell
from nbgpu.core.errors import InvalidOptions
from nbgpu.core.focus import COLUMNS
from nbgpu.core.periods import to_seconds
from nbgpu.core.plain import plain_account, plain_quota
from nbgpu.core.statement import Dimension, Part, Question
from nbgpu.core.statement_form import find_zone, focus_rows, parse_question, statement_header, statement_rows, to_plain
from nbgpu.service.books import Books
from nbgpu.service.callers import HubAuth
from nbgpu.service.csv_file import write_csv
from nbgpu.service.handler import ApiHandler
from nbgpu.service.idle_due import DueHandler
from nbgpu.service.metrics import MetricsHandler
from nbgpu.service.sessions import SESSION_HANDLERS
from nbgpu.service.statuses import Statuses
from nbgpu.service.turns import Turns

CHUNK = 2**16  # bytes
AT_ONCE = 3  # statements that are made at one time: each has a thread and a connection of its own
PATIENCE = 20.0  # seconds that one waits for its turn


class UsageHandler(ApiHandler):
    """A statement as JSON or CSV, or its single lines in FOCUS's columns."""

    parameters = ("by", "month", "from", "to", "timezone", "user", "group", "format")

    async def get(self) -> None:
        """Answer with the statement."""
        books, now, user = self.books, self.books.clock(), self.whose()
        if user is not None:
            await self.groups_of(user)
        question, zone = await asyncio.to_thread(self._parse, books, now, user)
        kind = self.text("format") or "json"
        if kind == "json":
            lines = await self._read(books, question, now)
            self.write(to_plain(question, lines) | {"timezone": str(zone), "as_of": now.isoformat(timespec="seconds")})
        elif kind == "csv":
            lines = await self._read(books, question, now)
            await self._send(f"usage-{question.first_day}.csv", statement_header(question), statement_rows(lines))
        elif kind == "focus":
            rows = focus_rows(books.statements.charges(question, now), account_id=books.account_id)
            await self._send(f"focus-{question.first_day}.csv", COLUMNS, rows)
        else:
            raise InvalidOptions(f"There is no format “{kind[:40]}”; there are: json, csv, focus.")

    def _parse(self, books: Books, now: datetime, user: str | None) -> tuple[Question, ZoneInfo]:
        """Return what is asked for and whose midnights count. Blocks: a zone is a file. Raises InvalidOptions."""
        zone = find_zone(self.text("timezone") or books.timezone)
        question = parse_question(
            parse_dimensions(self.get_query_arguments("by")),
            month=self.text("month"),
            first=self.text("from"),
            last=self.text("to"),
            today=now.astimezone(zone).date(),
            zone=zone,
            username=user,
            billing_group=self.text("group"),
        )
        return question, zone

    async def _read(self, books: Books, question: Question, now: datetime) -> tuple[Part, ...]:
        async with self.turn():
            return await asyncio.to_thread(books.statements.read, question, now)

    async def _send(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        """Send a CSV file piece by piece: a year's lines do not go through memory, and a slow reader holds no turn."""
        async with self.turn():
            file = await asyncio.to_thread(write_csv, header, rows)
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        with file:
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                self.write(chunk)
                await self.flush()


class BudgetsHandler(ApiHandler):
    """Budgets as they stand: one's own, or all for who reads all."""

    parameters = ("user",)

    async def get(self) -> None:
        """Answer with a list."""
        books, user = self.books, self.whose()
        if user is None:
            found = await asyncio.to_thread(books.limits.all_accounts)
        else:
            found = await asyncio.to_thread(books.limits.accounts, user, await self.groups_of(user))
        now = to_seconds(books.clock())
        self.write({"budgets": [plain_account(account, now) for account in found]})


class QuotasHandler(ApiHandler):
    """A person's quotas as they stand."""

    parameters = ("user",)

    async def get(self) -> None:
        """Answer with a list."""
        user = self.whose() or self.caller.name
        found = await asyncio.to_thread(self.books.limits.quotas, user, await self.groups_of(user))
        self.write({"user": user, "quotas": [plain_quota(quota) for quota in found]})


class PricesHandler(ApiHandler):
    """What holds now."""

    async def get(self) -> None:
        """Answer with a list."""
        sheet = await asyncio.to_thread(self.books.prices.sheet)
        found = sheet.current(to_seconds(self.books.clock()))
        self.write({"prices": [asdict(price) for price in found]})


def api_routes(
    prefix: str, find_books: Callable[[], Books | None], auth: HubAuth, *, turns: Turns | None = None
) -> list[tuple[Any, ...]]:
    """Return the API's routes under a path like "/services/nbgpu/"."""
    parts = {
        "find_books": find_books,
        "auth": auth,
        "turns": turns or Turns(AT_ONCE, patience=PATIENCE),
        "statuses": Statuses(),
    }
    handlers: dict[str, type[ApiHandler]] = {
        "usage": UsageHandler,
        "budgets": BudgetsHandler,
        "quotas": QuotasHandler,
        "prices": PricesHandler,
        "idle/due": DueHandler,
        **SESSION_HANDLERS,
    }
    routes = [(rf"{prefix}api/v1/{name}", handler, parts) for name, handler in handlers.items()]
    return [*routes, (rf"{prefix}metrics", MetricsHandler, parts)]


def parse_dimensions(texts: Sequence[str]) -> list[Dimension]:
    """Return what lines are of; several may be in one text, with commas. Raises InvalidOptions."""
    names = [name for text in texts for name in text.split(",") if name]
    try:
        return [Dimension(name) for name in names]
    except ValueError:
        unknown = next(name for name in names if name not in set(Dimension))
        raise InvalidOptions(f"by “{unknown[:40]}” is not known; there are: {', '.join(Dimension)}.") from None
