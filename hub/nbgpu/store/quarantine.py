"""Devices that are not leased for a fault, and what that means for the sessions on them."""

from datetime import datetime

from sqlalchemy import ColumnElement, Engine, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from nbgpu.core.gpu_health import Fault, FaultKind, Loss, Quarantine
from nbgpu.store.schema import LeaseRow, SessionRow
from nbgpu.store.usage_schema import QuarantineRow
from nbgpu.store.work import retried, unit_of_work

_CAUSE_LENGTH = 500


class SqlQuarantines:
    """Quarantines in the database; safe to use from many threads and processes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @retried
    def open(self) -> dict[str, Quarantine]:
        """Return the quarantines that hold now, by device."""
        query = select(QuarantineRow).where(QuarantineRow.returned_at.is_(None)).order_by(QuarantineRow.device_uuid)
        with unit_of_work(self._engine, reads_only=True) as db:
            return {row.device_uuid: _to_quarantine(row) for row in db.scalars(query)}

    @retried
    def latest(self, count: int = 100) -> tuple[Quarantine, ...]:
        """Return the newest quarantines, ended ones as well, newest first."""
        query = select(QuarantineRow).order_by(QuarantineRow.id.desc()).limit(count)
        with unit_of_work(self._engine, reads_only=True) as db:
            return tuple(_to_quarantine(row) for row in db.scalars(query))

    @retried
    def put(self, quarantine: Quarantine, session_id: str | None = None) -> bool:
        """Quarantine a device, and mark it as lost since its last good sample for the sessions that hold it.

        With `session_id` it is lost for that session alone. Both once: False for a device that is in quarantine. A
        session's mark is never moved, and outlives the quarantine: what a device did for it has ended. A device that
        is taken out of service is lost for nobody.
        """
        try:
            with unit_of_work(self._engine) as db:
                if quarantine.fault.kind is not FaultKind.CORDON:
                    self._mark_lost(db, quarantine, session_id)
                held = db.scalars(select(QuarantineRow).where(*_open(quarantine.device_uuid))).first()
                if held is not None:
                    return _worsen(held, quarantine)
                db.add(_to_row(quarantine))
                db.flush()
                return True
        except IntegrityError:
            return False  # somebody else was faster

    @retried
    def mark_lost(self, quarantine: Quarantine) -> None:
        """Mark a device as lost for the sessions that hold it, without a quarantine: it is gone for good."""
        with unit_of_work(self._engine) as db:
            self._mark_lost(db, quarantine, None)

    @retried
    def give_back(self, device_uuid: str, *, at: datetime, by: str) -> bool:
        """End a device's quarantine; False when it is in none."""
        with unit_of_work(self._engine) as db:
            ended = db.scalars(
                update(QuarantineRow)
                .where(*_open(device_uuid))
                .values(returned_at=at, returned_by=by[:255])
                .returning(QuarantineRow.id)
            ).all()
            return bool(ended)

    @retried
    def lost_devices(self) -> frozenset[str]:
        """Return the devices that a session still holds though it has lost them."""
        query = select(LeaseRow.device_uuid).where(LeaseRow.released_at.is_(None), LeaseRow.lost_at.is_not(None))
        with unit_of_work(self._engine, reads_only=True) as db:
            return frozenset(db.scalars(query))

    @retried
    def losses(self) -> tuple[Loss, ...]:
        """Return what running sessions have lost and is in quarantine for it."""
        query = (
            select(LeaseRow, QuarantineRow.since)
            .join(QuarantineRow, QuarantineRow.device_uuid == LeaseRow.device_uuid)
            .where(LeaseRow.released_at.is_(None), LeaseRow.lost_at.is_not(None), QuarantineRow.returned_at.is_(None))
            .order_by(LeaseRow.session_id, LeaseRow.position)
        )
        with unit_of_work(self._engine, reads_only=True) as db:
            return tuple(
                Loss(slot.session_id, slot.device_uuid, slot.lost_at, since)
                for slot, since in db.execute(query)
                if slot.lost_at is not None
            )

    def _mark_lost(self, db: Session, quarantine: Quarantine, session_id: str | None) -> None:
        query = (
            select(LeaseRow, SessionRow.active_at, SessionRow.created_at)
            .join(SessionRow, SessionRow.session_id == LeaseRow.session_id)
            .where(
                LeaseRow.device_uuid == quarantine.device_uuid,
                LeaseRow.released_at.is_(None),
                LeaseRow.lost_at.is_(None),
            )
        )
        if session_id is not None:
            query = query.where(LeaseRow.session_id == session_id)
        for slot, active_at, created_at in db.execute(query).all():
            # A device that was never seen well in this session was lost from its begin on.
            slot.lost_at = max(quarantine.last_good_at or created_at, active_at or created_at)


def _open(device_uuid: str) -> tuple[ColumnElement[bool], ...]:
    return QuarantineRow.device_uuid == device_uuid, QuarantineRow.returned_at.is_(None)


def _worsen(row: QuarantineRow, quarantine: Quarantine) -> bool:
    """Bring what has come on top into an open row; False where nothing changes.

    A device that a container had lost, and that is at fault itself now, does not come back as the former do. One that
    was taken out of service stays so until somebody returns it, whatever was or comes beside.
    """
    fault = quarantine.fault
    if FaultKind.CORDON in (row.kind, fault.kind):
        return _join(row, quarantine)
    if row.kind != FaultKind.CONTAINER or fault.kind is FaultKind.CONTAINER:
        return False
    row.kind, row.cause = fault.kind, fault.cause[:_CAUSE_LENGTH]
    return True


def _join(row: QuarantineRow, quarantine: Quarantine) -> bool:
    fault = quarantine.fault
    if row.kind == fault.kind or fault.cause in row.cause:
        return False
    if row.kind == FaultKind.CORDON:
        row.since = quarantine.since  # what is lost by the fault is noticed now, and told to who is on it
    row.kind, row.cause = FaultKind.CORDON, f"{row.cause} And: {fault.cause}"[:_CAUSE_LENGTH]
    return True


def _to_row(quarantine: Quarantine) -> QuarantineRow:
    return QuarantineRow(
        device_uuid=quarantine.device_uuid,
        kind=quarantine.fault.kind,
        cause=quarantine.fault.cause[:_CAUSE_LENGTH],
        since=quarantine.since,
        last_good_at=quarantine.last_good_at,
    )


def _to_quarantine(row: QuarantineRow) -> Quarantine:
    return Quarantine(
        device_uuid=row.device_uuid,
        since=row.since,
        fault=Fault(FaultKind(row.kind), row.cause),
        last_good_at=row.last_good_at,
        returned_at=row.returned_at,
        returned_by=row.returned_by,
    )
