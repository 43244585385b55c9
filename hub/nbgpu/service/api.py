"""The REST API, `/services/nbgpu/api/v1/…`: statements, budgets, quotas and prices.

Errors are problem details (RFC 9457). People read of themselves; who may read of all is in `callers`.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import datetime
from http import HTTPStatus
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from tornado.web import HTTPError, MissingArgumentError, RequestHandler

from nbgpu.core.cells import Cell
from nbgpu.core.errors import InvalidOptions, NbgpuError, NotAllowed, Refusal, UnknownUser
from nbgpu.core.focus import COLUMNS
from nbgpu.core.periods import to_seconds
from nbgpu.core.plain import plain_account, plain_quota
from nbgpu.core.statement import Dimension, Part, Question
from nbgpu.core.statement_form import find_zone, focus_rows, parse_question, statement_header, statement_rows, to_plain
from nbgpu.service.books import Books
from nbgpu.service.callers import Caller, HubAuth, to_caller
from nbgpu.service.csv_file import write_csv
from nbgpu.service.turns import Turns

CHUNK = 2**16  # bytes
AT_ONCE = 3  # statements that are made at one time: each has a thread and a connection of its own
PATIENCE = 20.0  # seconds that one waits for its turn
RETRY_AFTER = 10  # seconds

log = logging.getLogger("nbgpu.service")


class ApiHandler(RequestHandler):
    """What all of the API has in common: who asks, what parameters there are, how errors are told."""

    parameters: ClassVar[tuple[str, ...]] = ()

    def initialize(self, find_books: Callable[[], Books | None], auth: HubAuth, turns: Turns) -> None:
        """Take what finds the books, which are not there at once, the hub's word on who asks, and what gives turns."""
        self._find_books = find_books
        self._auth = auth
        self._turns = turns

    def set_default_headers(self) -> None:
        """Answers are somebody's own, and no page."""
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        self.clear_header("Server")

    async def prepare(self) -> None:
        """Find out who asks. 401 without a token that the hub knows, 403 with one that may not ask here."""
        model = await self._auth.get_user(self, sync=False)
        if model is None:
            raise HTTPError(HTTPStatus.UNAUTHORIZED, reason="A token of the hub is needed: Authorization: token …")
        caller = to_caller(model)
        if caller is None:
            raise HTTPError(HTTPStatus.FORBIDDEN, reason="This token may not use the nbgpu service.")
        self.caller: Caller = caller
        unknown = sorted(set(self.request.query_arguments) - set(self.parameters))
        if unknown:
            allowed = ", ".join(self.parameters) or "none"
            raise InvalidOptions(f"There is no parameter “{unknown[0][:40]}”; there are: {allowed}.")

    @property
    def books(self) -> Books:
        """The books. 503 while the service begins."""
        found = self._find_books()
        if found is None:
            raise HTTPError(HTTPStatus.SERVICE_UNAVAILABLE, reason="The service is starting. Try again in a moment.")
        return found

    def text(self, name: str) -> str | None:
        """Return a parameter; None without it, or where it is empty."""
        return self.get_query_argument(name, "") or None

    def whose(self) -> str | None:
        """Return the user that is asked about; None is everybody. Raises NotAllowed."""
        user = self.text("user")
        if self.caller.reads_all:
            return user
        if user not in (None, self.caller.name) or not self.caller.is_user:
            raise NotAllowed("This token reads its own user's usage only.")
        return self.caller.name

    async def groups_of(self, user: str) -> tuple[str, ...] | None:
        """Return the caller's groups where it is about them; None: those of the user's newest session.

        Raises UnknownUser.
        """
        if self.caller.is_user and user == self.caller.name:
            return self.caller.groups
        if not await asyncio.to_thread(self.books.statements.knows, user):
            raise UnknownUser(f"Nobody of the name “{user[:80]}” has ever had a server. Look for a typing error.")
        return None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Have a turn at what takes long. 503 where too many others wait."""
        try:
            async with self._turns.take():
                yield
        except TimeoutError:
            reason = "Many statements are being made at this moment. Try again in a moment."
            raise HTTPError(HTTPStatus.SERVICE_UNAVAILABLE, reason=reason) from None

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with problem details; what is not ours to tell is told in general words."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        detail = HTTPStatus(status_code).phrase
        if isinstance(error, Refusal):
            status_code, detail = error.status_code, str(error)
        elif isinstance(error, NbgpuError):
            status_code, detail = HTTPStatus.SERVICE_UNAVAILABLE, str(error)
        elif isinstance(error, MissingArgumentError | HTTPError) and error.reason:
            detail = error.reason
        self.set_status(status_code)
        if status_code == HTTPStatus.UNAUTHORIZED:
            self.set_header("WWW-Authenticate", "Bearer")
        elif status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            self.set_header("Retry-After", str(RETRY_AFTER))
        self.set_header("Content-Type", "application/problem+json")
        problem = {"type": "about:blank", "title": HTTPStatus(status_code).phrase, "status": status_code}
        self.finish(json.dumps(problem | {"detail": detail}, ensure_ascii=False))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log a surprise with its traceback; a refusal is in its answer."""
        if isinstance(value, NbgpuError):
            log.info("%s %s: %s", self.request.method, self.request.path, value)
        else:
            super().log_exception(typ, value, tb)


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
    parts = {"find_books": find_books, "auth": auth, "turns": turns or Turns(AT_ONCE, patience=PATIENCE)}
    handlers = {"usage": UsageHandler, "budgets": BudgetsHandler, "quotas": QuotasHandler, "prices": PricesHandler}
    return [(rf"{prefix}api/v1/{name}", handler, parts) for name, handler in handlers.items()]


def parse_dimensions(texts: Sequence[str]) -> list[Dimension]:
    """Return what lines are of; several may be in one text, with commas. Raises InvalidOptions."""
    names = [name for text in texts for name in text.split(",") if name]
    try:
        return [Dimension(name) for name in names]
    except ValueError:
        unknown = next(name for name in names if name not in set(Dimension))
        raise InvalidOptions(f"by “{unknown[:40]}” is not known; there are: {', '.join(Dimension)}.") from None
