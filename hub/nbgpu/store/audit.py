"""The audit log: who did what to what, and why."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, select

from nbgpu.core.ports import Clock
from nbgpu.store.clock import utc_now
from nbgpu.store.schema import AuditRow
from nbgpu.store.work import retried, unit_of_work


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One row of the log."""

    recorded_at: datetime
    actor: str
    action: str
    subject: str
    detail: str


class SqlAuditLog:
    """The audit log in the database; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    @retried
    def record(self, *, actor: str, action: str, subject: str, detail: str) -> None:
        """Add a row, dated now; texts are cut to their columns."""
        row = AuditRow(
            recorded_at=self._clock(),
            actor=actor[:255],
            action=action[:40],
            subject=subject[:512],
            detail=detail[:1000],
        )
        with unit_of_work(self._engine) as db:
            db.add(row)

    @retried
    def latest(self, count: int = 100) -> tuple[AuditEntry, ...]:
        """Return the newest rows, newest first."""
        with unit_of_work(self._engine, reads_only=True) as db:
            rows = db.scalars(select(AuditRow).order_by(AuditRow.id.desc()).limit(count))
            return tuple(AuditEntry(row.recorded_at, row.actor, row.action, row.subject, row.detail) for row in rows)
