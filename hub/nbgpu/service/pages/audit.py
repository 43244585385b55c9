"""The administrators' page of the audit log: who did what to what, and why; the same as a file."""

import asyncio
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from tornado.web import HTTPError

from nbgpu.core.audit import AuditEntry, AuditQuestion
from nbgpu.core.errors import InvalidOptions
from nbgpu.core.texts import Text, mark
from nbgpu.service.audit_question import LONGEST, parse_audit_question
from nbgpu.service.books import AuditBook
from nbgpu.service.csv_file import write_csv
from nbgpu.service.pages.base import OperatorPage

PAGE = 50  # rows
BATCH = 1000  # rows that are read at one time for a file
CHUNK = 2**16  # bytes
FIELDS = ("actor", "action", "subject", "from", "to")
HEADER = ("number", "recorded_at", "actor", "action", "subject", "detail")
_STARTING = mark("The service is starting. Try again in a moment.")


class AuditPage(OperatorPage):
    """The newest rows, with a filter."""

    @property
    def log(self) -> AuditBook:
        """The log. 503 while the service begins."""
        found = self.books.audit
        if found is None:
            raise HTTPError(HTTPStatus.SERVICE_UNAVAILABLE, reason=_STARTING)
        return found

    async def get(self) -> None:
        """Show a page of them."""
        question, below = await asyncio.to_thread(self.parse_question), self._parse_below()
        rows = await asyncio.to_thread(self.log.find, question, count=PAGE + 1, below=below)
        shown = rows[:PAGE]
        wanted = {name: self._text(name) for name in FIELDS}
        self.show(
            "audit.html",
            rows=shown,
            wanted=wanted,
            zone=self.books.timezone,
            is_later=below is not None,
            first=self._link("audit", wanted),
            following=self._link("audit", wanted, below=str(shown[-1].number)) if len(rows) > PAGE else None,
            file=self._link("audit/file", wanted),
        )

    def parse_question(self) -> AuditQuestion:
        """Return what is looked for. Blocks: a zone is a file. Raises InvalidOptions."""
        return parse_audit_question(self._text, self.books.timezone)

    def _text(self, name: str) -> str:
        return self.get_query_argument(name, "").strip()[:LONGEST]

    def _parse_below(self) -> int | None:
        text = self._text("below")
        if text and not (text.isascii() and text.isdecimal() and len(text) < 19):
            raise InvalidOptions(Text("This is no page of the log. Begin at its first."))
        return int(text) if text else None

    def _link(self, path: str, wanted: Mapping[str, str], **more: str) -> str:
        query = urlencode({name: value for name, value in {**wanted, **more}.items() if value})
        return f"{self.frame.prefix}{path}" + (f"?{query}" if query else "")


class AuditFile(AuditPage):
    """All rows that are looked for, as CSV."""

    async def get(self) -> None:
        """Send them piece by piece, newest first."""
        question = await asyncio.to_thread(self.parse_question)
        file = await asyncio.to_thread(write_csv, HEADER, map(_cells, read_all(self.log, question)))
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.set_header("Content-Disposition", 'attachment; filename="audit.csv"')
        with file:
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                self.write(chunk)
                await self.flush()


def read_all(log: AuditBook, question: AuditQuestion) -> Iterator[AuditEntry]:
    """Yield all rows, newest first, some at a time: the database is not held meanwhile. Blocks."""
    rows = log.find(question, count=BATCH)
    while rows:
        yield from rows
        rows = log.find(question, count=BATCH, below=rows[-1].number) if len(rows) == BATCH else ()


def _cells(entry: AuditEntry) -> tuple[str, ...]:
    when = entry.recorded_at.isoformat()
    return str(entry.number), when, entry.actor, entry.action, entry.subject, entry.detail


def audit_routes(prefix: str, parts: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the routes under a path like "/services/nbgpu/"; `parts` is what all pages take."""
    return [(rf"{prefix}audit", AuditPage, parts), (rf"{prefix}audit/file", AuditFile, parts)]
