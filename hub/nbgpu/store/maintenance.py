"""Maintenance, in the database; each change with its row in the audit log, in one transaction."""

from datetime import datetime
from types import EllipsisType

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from nbgpu.core.errors import ChangedMeanwhile
from nbgpu.core.maintenance import Maintenance, check_stop
from nbgpu.core.ports import Clock
from nbgpu.core.reasons import parse_reason
from nbgpu.core.texts import Text
from nbgpu.store.audit import audit_row
from nbgpu.store.clock import utc_now
from nbgpu.store.notice_schema import MaintenanceRow
from nbgpu.store.schema import AuditRow
from nbgpu.store.work import retried, unit_of_work

HERE = ""  # the node that is the machine of the hub
_CURRENT = select(MaintenanceRow).where(MaintenanceRow.node == HERE, MaintenanceRow.ended_at.is_(None))


Seen = Maintenance | None | EllipsisType  # what was looked at; ...: nothing was


class SqlMaintenance:
    """The maintenance of one deployment's machine; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    @retried
    def current(self) -> Maintenance | None:
        """Return what has begun and not ended."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return read_maintenance(db)

    @retried
    def begin(self, reason: str, stop_at: datetime | None, *, by: str, seen: Seen = ...) -> Maintenance:
        """Start no server from now on, and stop those that run at `stop_at`; one that has begun is changed.

        `seen` is what was looked at. Raises InvalidOptions, ChangedMeanwhile.
        """
        now, said = self._clock(), parse_reason(reason)
        with unit_of_work(self._engine) as db:
            row = db.scalars(_CURRENT.with_for_update()).first()
            _check_seen(row, seen)
            if row is None or row.stop_at != stop_at:
                check_stop(stop_at, now)
            if row is None:
                row = MaintenanceRow(node=HERE, since=now)
                db.add(row)
            row.reason, row.author, row.stop_at = said, by[:255], stop_at
            db.add(_audit(now, "begin", by, f"{said}; {_describe(stop_at)}"))
            db.flush()
            return _to_maintenance(row)

    @retried
    def end(self, *, by: str, seen: Seen = ...) -> bool:
        """Start servers again; False where there was no maintenance. Raises ChangedMeanwhile."""
        now = self._clock()
        with unit_of_work(self._engine) as db:
            row = db.scalars(_CURRENT.with_for_update()).first()
            _check_seen(row, seen)
            if row is None:
                return False
            row.ended_at = now
            db.add(_audit(now, "end", by, row.reason))
            return True


def read_maintenance(db: Session) -> Maintenance | None:
    """Return what has begun and not ended, in a transaction."""
    row = db.scalars(_CURRENT).first()
    return _to_maintenance(row) if row is not None else None


def _check_seen(row: MaintenanceRow | None, seen: Seen) -> None:
    if seen is not ... and (_to_maintenance(row) if row is not None else None) != seen:
        raise ChangedMeanwhile(Text("Somebody has changed maintenance since you looked. Look at what is there now."))


def _describe(stop_at: datetime | None) -> str:
    return (
        "what runs goes on" if stop_at is None else f"what runs is stopped at {stop_at.isoformat(timespec='seconds')}"
    )


def _audit(at: datetime, what: str, by: str, detail: str) -> AuditRow:
    return audit_row(at, actor=by, action=f"maintenance.{what}", subject="this machine", detail=detail)


def _to_maintenance(row: MaintenanceRow) -> Maintenance:
    return Maintenance(row.reason, row.author, row.since, row.stop_at, row.ended_at)
