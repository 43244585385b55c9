"""What everybody is told, in the database; each change with its row in the audit log, in one transaction."""

from datetime import datetime, timedelta

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from nbgpu.core.broadcasts import Broadcast, check_span, parse_message
from nbgpu.core.errors import UnknownNotice
from nbgpu.core.ports import Clock
from nbgpu.core.texts import Text
from nbgpu.store.audit import audit_row
from nbgpu.store.clock import utc_now
from nbgpu.store.notice_schema import BroadcastRow
from nbgpu.store.work import retried, unit_of_work

KEPT = 50  # that are listed


class SqlBroadcasts:
    """The messages of one deployment; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    @retried
    def current(self) -> tuple[Broadcast, ...]:
        """Return those that are shown now, oldest first."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return read_broadcasts(db, self._clock())

    @retried
    def latest(self) -> tuple[Broadcast, ...]:
        """Return the newest, newest first."""
        with unit_of_work(self._engine, reads_only=True) as db:
            rows = db.scalars(select(BroadcastRow).order_by(BroadcastRow.id.desc()).limit(KEPT))
            return tuple(map(_to_broadcast, rows))

    @retried
    def send(self, text: str, span: timedelta, *, by: str) -> Broadcast:
        """Tell everybody for a while. Raises InvalidOptions."""
        now = self._clock()
        row = BroadcastRow(text=parse_message(text), author=by[:255], sent_at=now, until=now + check_span(span))
        with unit_of_work(self._engine) as db:
            db.add(row)
            db.flush()
            detail = f"{row.text} (until {row.until.isoformat(timespec='seconds')})"
            db.add(audit_row(now, actor=by, action="broadcast.send", subject=str(row.id), detail=detail))
            return _to_broadcast(row)

    @retried
    def withdraw(self, number: int, *, by: str) -> None:
        """Show a message no more. Raises UnknownNotice where it is not shown."""
        now = self._clock()
        with unit_of_work(self._engine) as db:
            row = db.get(BroadcastRow, number, with_for_update=True)
            if row is None or not _to_broadcast(row).is_shown(now):
                raise UnknownNotice(Text("This message is not shown any more."))
            row.withdrawn_at = now
            db.add(audit_row(now, actor=by, action="broadcast.withdraw", subject=str(number), detail=row.text))


def read_broadcasts(db: Session, now: datetime) -> tuple[Broadcast, ...]:
    """Return those that are shown at an instant, oldest first, in a transaction."""
    query = select(BroadcastRow).where(BroadcastRow.until > now, BroadcastRow.withdrawn_at.is_(None))
    return tuple(map(_to_broadcast, db.scalars(query.order_by(BroadcastRow.id))))


def _to_broadcast(row: BroadcastRow) -> Broadcast:
    return Broadcast(row.id, row.text, row.author, row.sent_at, row.until, row.withdrawn_at)
