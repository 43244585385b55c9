"""The API of the audit log: who did what to what, and why. Rows come newest first, a page at a time."""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from nbgpu.core.audit import AuditEntry
from nbgpu.service.audit_answers import AuditAnswer, AuditRowAnswer
from nbgpu.service.audit_question import parse_audit_question
from nbgpu.service.handler import ApiHandler, needed
from nbgpu.service.operations import DAY, May, Operation, Parameter
from nbgpu.service.paging import PAGING, Page, parse_page, to_cursor

FILTERS = (
    Parameter(name="actor", description="A part of who did it, in any case."),
    Parameter(name="action", description="How what was done begins, like gpu."),
    Parameter(name="subject", description="A part of what it was done to, in any case."),
    Parameter(name="from", description="The first day, like 2026-11-01, by the settings' zone.", schema=DAY),
    Parameter(name="to", description="The last day, which is included.", schema=DAY),
)


class AuditHandler(ApiHandler):
    """The log."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="The audit log, newest first.",
            answer=AuditAnswer,
            may=May.OPERATE,
            parameters=(*FILTERS, *PAGING),
        )
    }

    async def get(self) -> None:
        """Answer with a page of rows."""
        page = parse_page(self.text, kinds=(int,))
        found = await asyncio.to_thread(self._find, page)
        shown = found[: page.limit]
        following = to_cursor(shown[-1].number) if len(found) > page.limit else None
        self.answer(AuditAnswer(rows=[_build(entry) for entry in shown], next=following))

    def _find(self, page: Page) -> tuple[AuditEntry, ...]:
        question = parse_audit_question(self.text, self.books.timezone)
        below = int(page.after[0]) if page.after is not None else None
        return needed(self.books.audit).find(question, count=page.limit + 1, below=below)


def _build(entry: AuditEntry) -> AuditRowAnswer:
    return AuditRowAnswer(
        number=entry.number,
        recorded_at=entry.recorded_at,
        actor=entry.actor,
        action=entry.action,
        subject=entry.subject,
        detail=entry.detail,
    )


AUDIT_HANDLERS: dict[str, type[ApiHandler]] = {"audit": AuditHandler}
