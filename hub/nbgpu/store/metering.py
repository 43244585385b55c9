"""Metering in the database: what is known of sessions that are not settled, and their settlement.

The facts are read, rated and posted in one transaction, so two meters at once, or one that is killed, post nothing
twice and leave nothing half done.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Engine, Select, or_, select, update
from sqlalchemy.orm import Session, selectinload

from nbgpu.core.ledger import Charge, Holding, SessionFacts, by_session, due, rate, settle
from nbgpu.core.periods import to_seconds
from nbgpu.core.ports import Clock
from nbgpu.store.clock import utc_now
from nbgpu.store.ledger import lock_ledger, post_in, select_charges
from nbgpu.store.prices import read_sheet
from nbgpu.store.schema import LeaseRow, MeterRow, SessionRow
from nbgpu.store.work import retried, unit_of_work

UNSETTLED = ~SessionRow.settled  # as the index of these is made for


class SqlMetering:
    """The meter's side of the database; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    @retried
    def note_seen(self, session_ids: Collection[str], at: datetime) -> None:
        """Note that the containers of these sessions ran at an instant."""
        with unit_of_work(self._engine) as db:
            db.execute(
                update(SessionRow)
                .where(
                    SessionRow.session_id.in_(list(session_ids)),
                    SessionRow.released_at.is_(None),
                    or_(SessionRow.seen_at.is_(None), SessionRow.seen_at < at),
                )
                .values(seen_at=at)
            )

    @retried
    def note_tick(self, *, at: datetime, uptime: int, boot_id: str, tolerance: int) -> int:
        """Note a tick by both clocks; return by how many seconds the wall clock was stepped since the last, else 0.

        `uptime` is in milliseconds since boot. A step is taken out of the length of every session that ran across it:
        of those the difference of the wall clock is wrong. After a reboot nothing can be said.
        """
        with unit_of_work(self._engine) as db:
            row = db.get(MeterRow, 1)
            if row is None:
                db.add(MeterRow(id=1, ticked_at=at, uptime=uptime, boot_id=boot_id))
                return 0
            elapsed = timedelta(milliseconds=uptime - row.uptime)
            step = _Step(row.ticked_at, elapsed, at - row.ticked_at - elapsed, timedelta(seconds=tolerance))
            can_tell = row.boot_id == boot_id and abs(step.size) >= step.tolerance
            row.ticked_at, row.uptime, row.boot_id = at, uptime, boot_id
            if not can_tell:
                return 0
            for session in db.scalars(_unsettled()):
                step.hide_in(session)
            return step.seconds

    @retried
    def unsettled(self) -> tuple[SessionFacts, ...]:
        """Return what is known of all sessions that are not settled."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return tuple(to_facts(row) for row in db.scalars(_unsettled()))

    @retried
    def settle(self) -> tuple[Charge, ...]:
        """Post what is certain and not in the ledger yet of all unsettled sessions; return it. Idempotent."""
        with unit_of_work(self._engine) as db:
            lock_ledger(db)  # before the look: what another meter posts meanwhile would be posted twice
            facts = [to_facts(row) for row in db.scalars(_unsettled())]
            new = _settle(db, facts)
            post_in(db, new, to_seconds(self._clock()))
            over = [{"session_id": each.session_id, "settled": True} for each in facts if each.released]
            if over:
                db.execute(update(SessionRow), over)
            return new

    @retried
    def accrued(self, now: datetime) -> tuple[Charge, ...]:
        """Return what unsettled sessions have cost up to `now` beyond what is posted."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return accrued_in(db, now)


def accrued_in(db: Session, now: datetime) -> tuple[Charge, ...]:
    """Return, within a transaction, what unsettled sessions have cost up to `now` beyond what is posted."""
    facts = [to_facts(row) for row in db.scalars(_unsettled())]
    posted, sheet, instant = _posted(db, facts), read_sheet(db), to_seconds(now)
    return tuple(
        charge for each in facts for charge in settle(rate(each, sheet, instant), posted.get(each.session_id, ()))
    )


def to_facts(row: SessionRow) -> SessionFacts:
    """Return a session's facts; steps of the wall clock are taken out, so that lengths are right."""
    return SessionFacts(
        session_id=row.session_id,
        username=row.username,
        flavor=row.flavor,
        started_at=_instant(row.active_at),
        ended_at=_instant(row.ended_at, row.clock_shift),
        seen_at=_instant(row.seen_at, row.clock_shift),
        released=row.released_at is not None,
        billable=row.billable,
        tariff=row.tariff,
        billing_group=row.billing_group,
        clock_shift=row.clock_shift,
        holdings=tuple(_to_holding(row, slot) for slot in row.slots),
    )


def _to_holding(session: SessionRow, slot: LeaseRow) -> Holding:
    ends = [slot.lost_at]
    if slot.released_at != session.released_at:  # it was dropped while the session went on
        ends.append(slot.released_at)
    known = [_instant(end, session.clock_shift) for end in ends if end is not None]
    return Holding(slot.device_uuid, min((each for each in known if each is not None), default=None))


def _instant(at: datetime | None, shift: int = 0) -> int | None:
    return to_seconds(at) + shift if at is not None else None


def _unsettled() -> Select[SessionRow]:
    return (
        select(SessionRow)
        .where(UNSETTLED, or_(SessionRow.active_at.is_not(None), SessionRow.released_at.is_not(None)))
        .order_by(SessionRow.created_at, SessionRow.session_id)
        .options(selectinload(SessionRow.slots))
    )


def _posted(db: Session, facts: Iterable[SessionFacts]) -> Mapping[str, list[Charge]]:
    return by_session(select_charges(db, [each.session_id for each in facts]))


def _settle(db: Session, facts: list[SessionFacts]) -> tuple[Charge, ...]:
    posted, sheet = _posted(db, facts), read_sheet(db)
    return tuple(
        charge for each in facts for charge in settle(due(rate(each, sheet), each), posted.get(each.session_id, ()))
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of the wall clock somewhere between two ticks."""

    before: datetime  # the tick before it
    elapsed: timedelta  # since then, by the clock that is not stepped
    size: timedelta
    tolerance: timedelta

    @property
    def seconds(self) -> int:
        return round(self.size.total_seconds())

    def hide_in(self, session: SessionRow) -> None:
        """Take the step out of a session that ran across it. What was noted of it before stays where it was."""
        if session.seen_at is None and not self._is_before(session.active_at):
            return  # it began after the step
        if session.released_at is not None and self._is_before(session.ended_at):
            return  # it ended before the step
        session.clock_shift -= self.seconds
        if session.seen_at is not None:
            session.seen_at += timedelta(seconds=self.seconds)
        for slot in session.slots:
            if slot.lost_at is not None:
                slot.lost_at += timedelta(seconds=self.seconds)
            if slot.released_at is not None and slot.released_at != session.released_at:
                slot.released_at += timedelta(seconds=self.seconds)

    def _is_before(self, at: datetime | None) -> bool:
        """Whether an instant since the last tick was read from the clock as it went before the step."""
        return at is not None and -self.tolerance <= at - self.before <= self.elapsed + self.tolerance
