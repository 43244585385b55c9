"""The REST API, `/services/nbgpu/api/v1/…`: statements, budgets, quotas and prices.

Errors are problem details (RFC 9457). People read of themselves; who may read of all is in `callers`.
"""

import asyncio
import csv
import io
import json
import logging
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from http import HTTPStatus
from typing import IO, Any, ClassVar, Protocol

from tornado.web import HTTPError, MissingArgumentError, RequestHandler

from nbgpu.core.budgets import Account
from nbgpu.core.cells import Cell, render_cell
from nbgpu.core.errors import InvalidOptions, NbgpuError, NotAllowed, Refusal
from nbgpu.core.focus import COLUMNS
from nbgpu.core.ledger import Charge
from nbgpu.core.periods import to_seconds
from nbgpu.core.plain import plain_account, plain_quota
from nbgpu.core.prices import PriceSheet
from nbgpu.core.quotas import Quota
from nbgpu.core.statement import Dimension, Part, Question
from nbgpu.core.statement_form import find_zone, focus_rows, parse_question, statement_header, statement_rows, to_plain
from nbgpu.service.callers import Caller, HubAuth, to_caller

CHUNK = 2**16  # bytes
SPOOLED = 2**22  # bytes of a file that stay in memory

log = logging.getLogger("nbgpu.service")


class Statements(Protocol):
    """Statements out of the ledger. May block."""

    def read(self, question: Question, now: datetime) -> tuple[Part, ...]:
        """Return a statement's lines."""

    def charges(self, question: Question, now: datetime) -> Iterable[tuple[Charge, bool]]:
        """Yield the single lines, each with whether it is posted."""


class Limits(Protocol):
    """Budgets and quotas as they stand. May block."""

    def accounts(self, username: str, groups: Iterable[str]) -> tuple[Account, ...]:
        """Return those that pay for a person."""

    def all_accounts(self) -> tuple[Account, ...]:
        """Return all."""

    def quotas(self, username: str, groups: Iterable[str] | None = None) -> tuple[Quota, ...]:
        """Return a person's limits."""


class Prices(Protocol):
    """The price sheets. May block."""

    def sheet(self) -> PriceSheet:
        """Return all prices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What the API tells of, once the service has it."""

    statements: Statements
    limits: Limits
    prices: Prices
    clock: Callable[[], datetime]
    timezone: str
    account_id: str


class ApiHandler(RequestHandler):
    """What all of the API has in common: who asks, what parameters there are, how errors are told."""

    parameters: ClassVar[tuple[str, ...]] = ()

    def initialize(self, find_books: Callable[[], Books | None], auth: HubAuth) -> None:
        """Take what finds the books, which are not there at once, and the hub's word on who asks."""
        self._find_books = find_books
        self._auth = auth

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
            self.set_header("WWW-Authenticate", "Bearer")
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
        books, now = self.books, self.books.clock()
        user, group = self.whose(), self.text("group")
        zone = find_zone(self.text("timezone") or books.timezone)
        question = parse_question(
            parse_dimensions(self.get_query_arguments("by")),
            month=self.text("month"),
            first=self.text("from"),
            last=self.text("to"),
            today=now.astimezone(zone).date(),
            zone=zone,
            username=user,
            billing_group=group,
        )
        kind = self.text("format") or "json"
        if kind == "json":
            lines = await asyncio.to_thread(books.statements.read, question, now)
            self.write(to_plain(question, lines) | {"timezone": str(zone), "as_of": now.isoformat(timespec="seconds")})
        elif kind == "csv":
            lines = await asyncio.to_thread(books.statements.read, question, now)
            await self._send(f"usage-{question.first_day}.csv", statement_header(question), statement_rows(lines))
        elif kind == "focus":
            rows = focus_rows(books.statements.charges(question, now), account_id=books.account_id)
            await self._send(f"focus-{question.first_day}.csv", COLUMNS, rows)
        else:
            raise InvalidOptions(f"There is no format “{kind[:40]}”; there are: json, csv, focus.")

    async def _send(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        """Send a CSV file piece by piece: a year's lines do not go through memory."""
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        with await asyncio.to_thread(write_csv, header, rows) as file:
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
            groups = self.caller.groups if user == self.caller.name else ()
            found = await asyncio.to_thread(books.limits.accounts, user, groups)
        now = to_seconds(books.clock())
        self.write({"budgets": [plain_account(account, now) for account in found]})


class QuotasHandler(ApiHandler):
    """A person's quotas as they stand."""

    parameters = ("user",)

    async def get(self) -> None:
        """Answer with a list."""
        user = self.whose() or self.caller.name
        groups = self.caller.groups if user == self.caller.name and self.caller.is_user else None
        found = await asyncio.to_thread(self.books.limits.quotas, user, groups)
        self.write({"user": user, "quotas": [plain_quota(quota) for quota in found]})


class PricesHandler(ApiHandler):
    """What holds now."""

    async def get(self) -> None:
        """Answer with a list."""
        sheet = await asyncio.to_thread(self.books.prices.sheet)
        found = sheet.current(to_seconds(self.books.clock()))
        self.write({"prices": [asdict(price) for price in found]})


def api_routes(prefix: str, find_books: Callable[[], Books | None], auth: HubAuth) -> list[tuple[Any, ...]]:
    """Return the API's routes under a path like "/services/nbgpu/"."""
    parts = {"find_books": find_books, "auth": auth}
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


def write_csv(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> IO[bytes]:
    """Return a CSV file (RFC 4180, UTF-8), open at its start, that is gone when it is closed. Blocks."""
    file = tempfile.SpooledTemporaryFile(SPOOLED)  # noqa: SIM115 - the caller's to close
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows([render_cell(cell) for cell in row] for row in rows)
    text.detach()
    file.seek(0)
    return file
