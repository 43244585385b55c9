"""The audit log: who did what to what, and why."""

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import ColumnElement, Engine, select

from nbgpu.core.audit import AuditEntry, AuditQuestion
from nbgpu.core.ports import Clock
from nbgpu.store.clock import utc_now
from nbgpu.store.schema import AuditRow
from nbgpu.store.work import retried, unit_of_work


class SqlAuditLog:
    """The audit log in the database; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    @retried
    def record(self, *, actor: str, action: str, subject: str, detail: str) -> None:
        """Add a row, dated now; texts are cut to their columns."""
        row = audit_row(self._clock(), actor=actor, action=action, subject=subject, detail=detail)
        with unit_of_work(self._engine) as db:
            db.add(row)

    def latest(self, count: int = 100) -> tuple[AuditEntry, ...]:
        """Return the newest rows, newest first."""
        return self.find(AuditQuestion(), count=count)

    @retried
    def find(self, question: AuditQuestion, *, count: int, below: int | None = None) -> tuple[AuditEntry, ...]:
        """Return the newest rows that are looked for, newest first; with `below` only those of lower numbers."""
        wanted = list(_conditions(question))
        if below is not None:
            wanted.append(AuditRow.id < below)
        query = select(AuditRow).where(*wanted).order_by(AuditRow.id.desc()).limit(count)
        with unit_of_work(self._engine, reads_only=True) as db:
            return tuple(_to_entry(row) for row in db.scalars(query))


def audit_row(at: datetime, *, actor: str, action: str, subject: str, detail: str) -> AuditRow:
    """Return a row, for the transaction that does what it tells of; texts are cut to their columns."""
    return AuditRow(recorded_at=at, actor=actor[:255], action=action[:40], subject=subject[:512], detail=detail[:1000])


def _conditions(question: AuditQuestion) -> Iterator[ColumnElement[bool]]:
    if question.actor:
        yield AuditRow.actor.icontains(question.actor, autoescape=True)
    if question.action:
        yield AuditRow.action.istartswith(question.action, autoescape=True)
    if question.subject:
        yield AuditRow.subject.icontains(question.subject, autoescape=True)
    if question.since is not None:
        yield AuditRow.recorded_at >= question.since
    if question.before is not None:
        yield AuditRow.recorded_at < question.before


def _to_entry(row: AuditRow) -> AuditEntry:
    return AuditEntry(row.recorded_at, row.actor, row.action, row.subject, row.detail, row.id)
