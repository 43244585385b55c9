"""The page of all sessions, for who operates: a table with filter, order and pages; the same as a file."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from nbgpu.core.cells import Cell
from nbgpu.core.reasons import LONGEST as REASON
from nbgpu.core.session_list import FoundSession, Order, Place, SessionPage, SessionQuestion, Wanted
from nbgpu.core.statement_form import find_zone
from nbgpu.core.texts import Text
from nbgpu.core.units import render_money
from nbgpu.service.audit_question import LONGEST
from nbgpu.service.books import Books
from nbgpu.service.csv_file import write_csv
from nbgpu.service.handler import needed
from nbgpu.service.pages.base import OperatorPage
from nbgpu.service.pages.session_acts import SPANS, Act
from nbgpu.service.pages.session_lines import Line, build_line
from nbgpu.service.session_question import parse_session_page, parse_session_question, place_cursor

PAGE = 50  # rows
BATCH = 5000  # rows that are read at one time for a file
CHUNK = 2**16  # bytes
FIELDS = ("q", "user", "group", "flavor", "state", "from", "to", "sort")  # of the address
STATES = {Wanted.RUNNING: Text("running"), Wanted.ENDED: Text("ended"), Wanted.ALL: Text("all")}
COLUMNS = {  # what can be sorted by, each with how it begins
    "user": (Text("Server"), Order.USER),
    "flavor": (Text("Flavor"), Order.FLAVOR),
    "started": (Text("Started"), Order.NEWEST),
    "ran": (Text("Ran for"), Order.LONGEST),
    "cost": (Text("Cost"), Order.DEAREST),
}
HEADER = (
    *("session_id", "user", "server", "flavor", "image", "devices", "started_at", "ended_at", "ran_s"),
    *("cost_micro", "currency", "state", "detail"),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A page of the table."""

    lines: tuple[Line, ...]
    total: int
    before: str | None  # cursor of the page before
    after: str | None


class SessionsPage(OperatorPage):
    """Running and ended sessions."""

    async def get(self) -> None:
        """Show a page of them."""
        await self.show_sessions(self._text)

    async def show_sessions(self, text: Callable[[str], str], *, problem: object = None) -> None:
        """Answer with the page that `text` asks for; `problem` is why something was not done."""
        question, shown = await asyncio.to_thread(self._read, text)
        wanted = {name: text(name) for name in FIELDS}
        self.show(
            "sessions.html",
            shown=shown,
            question=question,
            wanted=wanted,
            states=STATES,
            columns=COLUMNS,
            link=lambda **more: self.link("sessions", wanted, **more),
            file=self.link("sessions/file", wanted),
            flavors=self.books.flavors.values(),
            currency=self.books.currency,
            zone=self.books.timezone,
            money=render_money,
            acts=Act,
            spans=SPANS,
            longest=REASON,
            problem=problem,
            typed={name: self.get_body_argument(name, "") for name in ("reason", "act")},
        )

    def parse_question(self, text: Callable[[str], str]) -> SessionQuestion:
        """Return what is looked for. Blocks: a zone is a file. Raises InvalidOptions."""
        return parse_session_question(text, self.books.timezone, username=text("user"))

    def link(self, path: str, wanted: Mapping[str, str], **more: str) -> str:
        """Return the address of a page with its filter."""
        query = urlencode({name: value for name, value in {**wanted, **more}.items() if value})
        return f"{self.frame.prefix}{path}" + (f"?{query}" if query else "")

    def _text(self, name: str) -> str:
        return self.get_query_argument(name, "").strip()[:LONGEST]

    def _read(self, text: Callable[[str], str]) -> tuple[SessionQuestion, Shown]:
        question = self.parse_question(text)
        cursor = self.get_query_argument("before", "") or self.get_query_argument("after", "")
        _, edge = parse_session_page({"cursor": cursor or None}.get, question.order)
        backwards = bool(self.get_query_argument("before", ""))
        book = needed(self.books.sessions)
        page = book.find(question, count=PAGE, edge=edge, backwards=backwards)
        return question, Shown(
            lines=tuple(read_lines(self.books, page)),
            total=page.total,
            before=_cursor(question, page, 0, page.is_more if backwards else edge is not None),
            after=_cursor(question, page, -1, backwards or page.is_more),
        )


class SessionsFile(SessionsPage):
    """All pages as CSV."""

    async def get(self) -> None:
        """Send them piece by piece."""
        question = await asyncio.to_thread(self.parse_question, self._text)
        file = await asyncio.to_thread(write_csv, HEADER, self._cells(question))
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.set_header("Content-Disposition", 'attachment; filename="sessions.csv"')
        with file:
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                self.write(chunk)
                await self.flush()

    def _cells(self, question: SessionQuestion) -> Iterator[tuple[Cell, ...]]:
        books = self.books
        for page in read_pages(needed(books.sessions).find, question, BATCH):
            for found, line in zip(page.rows, read_lines(books, page), strict=True):
                yield _to_cells(found, line, books.currency)


def read_pages(find: Callable[..., SessionPage], question: SessionQuestion, count: int) -> Iterator[SessionPage]:
    """Yield all pages. Blocks."""
    edge: Place | None = None
    while True:
        page = find(question, count=count, edge=edge)
        yield page
        if not page.is_more:
            return
        edge = page.rows[-1].place


def read_lines(books: Books, page: SessionPage) -> Iterator[Line]:
    """Yield the lines of a page. Blocks."""
    costs = books.limits.costs([row.view.session_id for row in page.rows])
    now, zone = books.clock(), find_zone(books.timezone)
    return (build_line(row, books.flavors, costs, now=now, zone=zone) for row in page.rows)


def _cursor(question: SessionQuestion, page: SessionPage, index: int, is_there: bool) -> str | None:  # noqa: FBT001
    return place_cursor(question.order, page.rows[index].place) if is_there and page.rows else None


def _to_cells(found: FoundSession, line: Line, currency: str) -> tuple[Cell, ...]:
    view = found.view
    ended = view.ended_at.isoformat() if view.ended_at is not None else None
    detail = str(line.detail) if line.detail is not None else None
    devices = " ".join(view.devices)
    return (
        *(view.session_id, line.user, line.server, view.flavor, view.image, devices),
        *(view.started_at.isoformat(), ended, int(line.ran.total_seconds())),
        *(line.cost, currency, str(line.state), detail),
    )


def all_running(question: SessionQuestion) -> SessionQuestion:
    """Return the same question about those alone that run: nothing is done to what has ended."""
    return replace(question, wanted=Wanted.RUNNING)
