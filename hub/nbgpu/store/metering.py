"""Metering in the database: what is known of sessions that are not settled, and their settlement.

The facts are read, rated and posted in one transaction, so two meters at once, or one that is killed, post nothing
twice and leave nothing half done.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Engine, Select, or_, select, update
from sqlalchemy.orm import Session, selectinload

from nbgpu.core.ledger import Charge, Holding, SessionFacts, by_session, due, rate, settle
from nbgpu.core.periods import to_seconds
from nbgpu.core.ports import Clock
from nbgpu.core.prices import PriceSheet
from nbgpu.store.clock import utc_now
from nbgpu.store.ledger import lock_ledger, post_in, select_charges
from nbgpu.store.prices import read_sheet
from nbgpu.store.schema import LeaseRow, MeterRow, SessionRow
from nbgpu.store.steps import Step, decide, hide
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
            same_boot = row.boot_id == boot_id
            elapsed = timedelta(milliseconds=uptime - row.uptime) if same_boot else at - row.ticked_at
            step = Step.between(row.ticked_at, at, elapsed, timedelta(seconds=tolerance))
            row.ticked_at, row.uptime, row.boot_id = at, uptime, boot_id
            undecided = decide(db, row.undecided, step.until)
            if step.seconds:
                rows = db.scalars(_unsettled())
                for starting in hide(step, rows, at + timedelta(seconds=tolerance)):
                    undecided.setdefault(starting, []).append(step.to_json())
            row.undecided = undecided
            return step.seconds

    @retried
    def unsettled(self) -> tuple[SessionFacts, ...]:
        """Return what is known of all sessions that are not settled."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return tuple(_read_facts(db))

    @retried
    def settle(self) -> tuple[Charge, ...]:
        """Post what is certain and not in the ledger yet of all unsettled sessions; return it. Idempotent."""
        with unit_of_work(self._engine) as db:
            lock_ledger(db)  # before the look: what another meter posts meanwhile would be posted twice
            facts = _read_facts(db)
            new = _find_new(db, facts, read_sheet(db))
            post_in(db, new, to_seconds(self._clock()))
            _note_posted(db, facts)
            return new

    @retried
    def accrued(self, now: datetime) -> tuple[Charge, ...]:
        """Return what unsettled sessions have cost up to `now` beyond what is posted."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return accrued_in(db, now)


def accrued_in(db: Session, now: datetime, *only: ColumnElement[bool]) -> tuple[Charge, ...]:
    """Return, within a transaction, what unsettled sessions have cost up to `now` beyond what is posted.

    `only` picks some of the sessions.
    """
    return tuple(find_accrued(db, _read_facts(db, *only), read_sheet(db), to_seconds(now)))


def find_accrued(db: Session, facts: Iterable[SessionFacts], sheet: PriceSheet, now: int) -> Iterator[Charge]:
    """Yield what sessions have cost up to `now` beyond what is posted; what is posted for good is not read."""
    for each, posted in _with_posted(db, facts):
        yield from settle(rate(each, sheet, now, since=each.unsure_from), posted)


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
        posted_until=row.posted_until,
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
    order = SessionRow.created_at, SessionRow.session_id
    return select(SessionRow).where(UNSETTLED).order_by(*order).options(selectinload(SessionRow.slots))


def _read_facts(db: Session, *only: ColumnElement[bool]) -> list[SessionFacts]:
    """Return what is known of all sessions, or some, that are not settled and have something to settle."""
    may_cost = or_(SessionRow.active_at.is_not(None), SessionRow.released_at.is_not(None))
    return [to_facts(row) for row in db.scalars(_unsettled().where(may_cost, *only))]


def _find_new(db: Session, facts: Iterable[SessionFacts], sheet: PriceSheet) -> tuple[Charge, ...]:
    """Return what is certain and not in the ledger yet."""
    return tuple(
        charge
        for each, posted in _with_posted(db, facts)
        for charge in settle(due(rate(each, sheet, since=each.unsure_from), each), posted)
    )


def _with_posted(db: Session, facts: Iterable[SessionFacts]) -> Iterator[tuple[SessionFacts, list[Charge]]]:
    """Yield each session with its lines of the ledger that may still change.

    A day's tick looks at the last hours alone, however long a server has run: sessions mostly are at the same hour.
    """
    by_hour: dict[int, list[SessionFacts]] = {}
    for each in facts:
        by_hour.setdefault(each.unsure_from, []).append(each)
    for since, found in by_hour.items():
        posted = by_session(select_charges(db, [each.session_id for each in found], since=since))
        yield from ((each, posted.get(each.session_id, [])) for each in found)


def _note_posted(db: Session, facts: Iterable[SessionFacts]) -> None:
    """Note, of each session whose charges are posted as far as they are due, how far that is, where that is new."""
    over, going_on = [], []
    for each in facts:
        if each.released:
            over.append({"session_id": each.session_id, "settled": True})
        elif each.posted_until != each.past_hours_end:
            going_on.append({"session_id": each.session_id, "posted_until": each.past_hours_end})
    for values in (over, going_on):
        if values:
            db.execute(update(SessionRow), values)
