"""Keeping the limits of what runs: how long each session may run, when it is stopped, which alerts are due."""

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import ColumnElement, Engine, func, select, update
from sqlalchemy.orm import Session

from nbgpu.core.authorize import Cause, Policies
from nbgpu.core.budgets import Account, Alert, Budget, find_payer, find_pools, in_force
from nbgpu.core.idle_policy import IdleSite
from nbgpu.core.leases import ServerRef
from nbgpu.core.maintenance import WARN, Maintenance
from nbgpu.core.periods import to_instant, to_seconds
from nbgpu.core.policy_edits import PolicyEffect
from nbgpu.core.ports import Clock
from nbgpu.core.quotas import Quota, describe_quota, limits_of
from nbgpu.core.stops import Kept, PlannedStop, Stop, plan_stop
from nbgpu.store.book import Book, paid_with
from nbgpu.store.clock import utc_now
from nbgpu.store.effects import find_effect
from nbgpu.store.idle_rows import read_due, read_moves, read_stops
from nbgpu.store.limits import Allowance, authorize_running
from nbgpu.store.maintenance import read_maintenance
from nbgpu.store.metering import to_facts
from nbgpu.store.policies import SqlPolicies, current_policies
from nbgpu.store.schema import AlertRow, ChargeRow, SessionRow
from nbgpu.store.work import freeze, retried, unit_of_work

QUOTA_GRACE = 600  # seconds that a server goes on when its person's GPU-hours are used up
ALERTS_KEPT = 100
FEW = 5  # people for whom it is faster to read of each alone

Person = tuple[str, tuple[str, ...]]  # name and groups
_NOBODY_IS_IDLE = IdleSite()


class SqlLimits:
    """The limits of one site; safe to use from many threads and processes."""

    def __init__(
        self,
        engine: Engine,
        policies: Policies | SqlPolicies,
        clock: Clock = utc_now,
        *,
        idle: IdleSite = _NOBODY_IS_IDLE,
    ) -> None:
        self._engine = engine
        self._policies = policies
        self._idle = idle
        self._clock = clock
        self._looked_at: int | None = None  # the newest charge at the last look; None before the first

    @retried
    def keep(self) -> Kept:
        """Work out anew what each running session may run, decide stops, raise alerts; return what there is to tell.

        It is worked out in a transaction that holds up no start, and only what is new is written, in a short one.
        """
        with unit_of_work(self._engine, reads_only=True) as db:
            freeze(db)
            book = self._open_book(db)
            allowed = authorize_running(book)
            idle, maintenance = read_stops(db, self._idle, book.now), read_maintenance(db)
            plans = [(row, _plan(book, row, allowed, idle)) for row in book.open_rows]
            if maintenance is not None:
                plans = [(row, _or_for_maintenance(row, planned, maintenance)) for row, planned in plans]
            newest = db.scalar(select(func.max(ChargeRow.id))) or 0
            alerts = self._find_alerts(db, book)
            kept = Kept(
                moved=read_moves(db, book.now),
                stops=tuple(planned for _, planned in plans if planned is not None),
                called_off=tuple(row.session_id for row, each in plans if each is None and _decided(row) is not None),
            )
            stops = {row: each.stop if each is not None else None for row, each in plans}
            decided = {row.session_id: stop for row, stop in stops.items() if stop != _decided(row)}
        if allowed or decided or alerts:
            with unit_of_work(self._engine) as db:
                _write(db, allowed, decided)
                db.add_all(alerts)
        self._looked_at = newest
        return kept

    @retried
    def is_idle_still(self, session_id: str) -> bool:
        """Return whether a session is to be stopped now for being idle, as of this moment."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return bool(read_due(db, self._idle, to_seconds(self._clock()), SessionRow.session_id == session_id))

    @retried
    def accounts(self, username: str, groups: Iterable[str] | None) -> tuple[Account, ...]:
        """Return the budgets that pay for a person as they stand: their own, then their groups' pools.

        Without `groups` those of their newest session.
        """
        with unit_of_work(self._engine, reads_only=True) as db:
            freeze(db)
            budgets = current_policies(db, self._policies).budgets
            if not budgets:  # most sites: nothing more needs to be looked up
                return ()
            known = newest_groups(db, username) if groups is None else groups
            book = self._open_book(db, paid_with(username, find_pools(budgets, known)))
            return _accounts_of(book, username, known)

    def quotas(self, username: str, groups: Iterable[str] | None = None) -> tuple[Quota, ...]:
        """Return a person's limits as they stand; without `groups` those of their newest session."""
        with unit_of_work(self._engine, reads_only=True) as db:
            freeze(db)
            book = self._open_book(db, SessionRow.username == username)
            if not book.policies.quotas:  # most sites: nothing more needs to be looked up
                return ()
            known = newest_groups(db, username) if groups is None else groups
            return _quotas_of(book, username, known)

    @retried
    def purses(self, people: Iterable[Person]) -> dict[Person, tuple[tuple[Account, ...], tuple[Quota, ...]]]:
        """Return the budgets and limits of many people, each with their groups: as by themselves, in one go."""
        people = list(people)
        with unit_of_work(self._engine, reads_only=True) as db:
            policies = current_policies(db, self._policies)
        if not policies.budgets and not policies.quotas:  # most sites: nothing more needs to be looked up
            return dict.fromkeys(people, ((), ()))
        found: dict[Person, tuple[tuple[Account, ...], tuple[Quota, ...]]] = {}
        if len(people) > FEW:
            with unit_of_work(self._engine, reads_only=True) as db:
                freeze(db)
                book = self._open_book(db)
                known = {row.username for row in book.rows}  # of others it has not read what is settled
                for username, groups in people:
                    if username in known:
                        accounts = _accounts_of(book, username, groups)
                        found[username, groups] = accounts, _quotas_of(book, username, groups)
        return found | {each: (self.accounts(*each), self.quotas(*each)) for each in people if each not in found}

    def costs(self, session_ids: Iterable[str]) -> dict[str, int]:
        """Return what sessions have cost so far, in micro-units: what is posted, and what is not yet."""
        ids = list(session_ids)
        with unit_of_work(self._engine, reads_only=True) as db:
            freeze(db)
            book = self._open_book(db, SessionRow.session_id.in_(ids))
            posted = select(ChargeRow.session_id, func.sum(ChargeRow.billed_cost)).group_by(ChargeRow.session_id)
            found = dict.fromkeys(ids, 0)
            found |= {each: int(cost) for each, cost in db.execute(posted.where(ChargeRow.session_id.in_(ids)))}
            for charge in book.accrued:
                found[charge.session_id] += charge.billed_cost
            return found

    @retried
    def all_accounts(self) -> tuple[Account, ...]:
        """Return all budgets as they stand: pools, and those of everybody who has spent or may spend."""
        with unit_of_work(self._engine, reads_only=True) as db:
            freeze(db)
            book = self._open_book(db)
            book.read_posted()
            return tuple(book.account(*each) for each in self._owners(db, book, everybody=True))

    @retried
    def effect(self, after: Policies, names: Collection[str]) -> PolicyEffect:
        """Return what other policies would do to what runs now; `names` are of the budgets that are new or changed."""
        with unit_of_work(self._engine, reads_only=True) as db:
            freeze(db)
            before = current_policies(db, self._policies)
            return find_effect(db, (before, after), names, to_seconds(self._clock()))

    @retried
    def alerts(self, *, unsent: bool = False) -> tuple[Alert, ...]:
        """Return the newest alerts, newest first; or all that are still to be sent."""
        query = select(AlertRow).order_by(AlertRow.id.desc())
        query = query.where(AlertRow.sent_at.is_(None)) if unsent else query.limit(ALERTS_KEPT)
        with unit_of_work(self._engine, reads_only=True) as db:
            return tuple(_to_alert(row) for row in db.scalars(query))

    def note_sent(self, alert_ids: Iterable[int]) -> None:
        """Note that alerts were sent."""
        with unit_of_work(self._engine) as db:
            db.execute(update(AlertRow).where(AlertRow.id.in_(list(alert_ids))).values(sent_at=self._clock()))

    def _open_book(self, db: Session, only: ColumnElement[bool] | None = None) -> Book:
        return Book(db, current_policies(db, self._policies), to_seconds(self._clock()), only)

    def _owners(self, db: Session, book: Book, *, everybody: bool = False) -> list[tuple[Budget, str]]:
        """Return whose budgets may have changed: all pools, and those of people who run or were just charged."""
        pools = [(each, each.who.name) for each in book.policies.budgets if each.is_pool]
        people = {row.username for row in book.rows}
        people |= set(db.scalars(select(SessionRow.username).distinct())) if everybody else self._just_charged(db, book)
        return pools + [(each, name) for name in sorted(people) for each in book.policies.own_budgets(name)]

    def _just_charged(self, db: Session, book: Book) -> set[str]:
        """Return who was charged since the last look, or in any budget's time where there was none."""
        query = select(ChargeRow.username).distinct()
        if self._looked_at is not None:
            return set(db.scalars(query.where(ChargeRow.id > self._looked_at)))
        policies = book.policies
        starts = [each.window.period(book.now, policies.zone).start for each in policies.budgets]
        return set(db.scalars(query.where(ChargeRow.charge_period_start >= min(starts)))) if starts else set()

    def _find_alerts(self, db: Session, book: Book) -> list[AlertRow]:
        """Return the alerts that are due and were not raised yet."""
        accounts = [book.account(*each) for each in self._owners(db, book)]
        query = select(AlertRow.budget, AlertRow.owner, AlertRow.period_start, AlertRow.percent, AlertRow.amount).where(
            AlertRow.period_start.in_({account.period.start for account in accounts})
        )
        told = {tuple(row) for row in db.execute(query)}
        return [
            self._to_row(account, percent, book.now)
            for account in accounts
            for percent in account.alerts_due()
            if (account.budget.name, account.owner, account.period.start, percent, account.budget.amount) not in told
        ]

    def _to_row(self, account: Account, percent: int, now: int) -> AlertRow:
        return AlertRow(
            budget=account.budget.name,
            owner=account.owner,
            period_start=account.period.start,
            percent=percent,
            spent=account.spent,
            amount=account.budget.amount,
            forecast=account.forecast(now),
            raised_at=self._clock(),
        )


def _plan(
    book: Book, row: SessionRow, allowed: Mapping[str, Allowance], idle: Mapping[str, PlannedStop]
) -> PlannedStop | None:
    """Return the stop of a session that comes first: at the end of what it may run, or for being idle."""
    planned = idle.get(row.session_id)
    stop = _plan_end(book, row, allowed.get(row.session_id))
    if stop is None or (planned is not None and planned.stop.at <= stop.at):
        return planned
    return PlannedStop(row.session_id, ServerRef(row.username, row.servername), stop)


def _plan_end(book: Book, row: SessionRow, allowance: Allowance | None) -> Stop | None:
    """Return the stop of a session from what it may run now, or as before where that is not new."""
    facts, decided = to_facts(row), _decided(row)
    if facts.started_at is None:
        return None
    began = facts.started_at - facts.clock_shift  # by the clock as it goes now
    if allowance is None:
        cause = Cause(row.authorized_by) if row.authorized_by is not None else None
        allowance = Allowance(row.authorized_seconds, cause)
    return plan_stop(
        deadline=began + allowance.seconds if allowance.seconds is not None else None,
        cause=allowance.cause,
        decided=decided,
        now=book.now,
        grace=_grace(row, allowance.cause, book.policies),
        latest=began + row.time_limit if row.time_limit is not None else None,
    )


def _grace(row: SessionRow, cause: Cause | None, policies: Policies) -> int:
    if cause is not Cause.BUDGET:
        return QUOTA_GRACE
    paying = [*policies.own_budgets(row.username), *find_payer(policies.budgets, row.paid_by)]
    return min((each.grace for each in paying), default=0)


def _or_for_maintenance(row: SessionRow, planned: PlannedStop | None, maintenance: Maintenance) -> PlannedStop | None:
    """Return the stop of a session: the one that is planned, or that for maintenance where this comes first."""
    stop = maintenance.stop
    if stop is None or row.active_at is None or (planned is not None and planned.stop.at <= stop.at):
        return planned
    return PlannedStop(row.session_id, ServerRef(row.username, row.servername), stop, WARN)


def _write(db: Session, allowed: Mapping[str, Allowance], stops: Mapping[str, Stop | None]) -> None:
    """Write what is new of running sessions, each in one statement."""
    if allowed:
        values = [
            {"session_id": each, "authorized_seconds": found.seconds, "authorized_by": found.cause}
            for each, found in allowed.items()
        ]
        db.execute(update(SessionRow), values)
    if stops:
        ends = [
            {
                "session_id": each,
                "stop_at": to_instant(stop.at) if stop is not None else None,
                "stop_cause": stop.cause if stop is not None else None,
            }
            for each, stop in stops.items()
        ]
        db.execute(update(SessionRow), ends)


def _accounts_of(book: Book, username: str, groups: Iterable[str]) -> tuple[Account, ...]:
    own = [book.account(each, username) for each in book.policies.own_budgets(username)]
    pools = [book.account(each, each.who.name) for each in find_pools(book.policies.budgets, groups)]
    return (*in_force(own), *in_force(pools))


def _quotas_of(book: Book, username: str, groups: Iterable[str]) -> tuple[Quota, ...]:
    policies = book.policies
    limits, tenures = limits_of(policies.quotas, username, groups, None), book.tenures(username)
    return tuple(describe_quota(limit, tenures, book.now, policies.zone) for limit in limits)


def newest_groups(db: Session, username: str) -> list[str]:
    """Return the groups that a person had at the start of their newest session."""
    query = select(SessionRow.user_groups).where(SessionRow.username == username)
    return db.scalars(query.order_by(SessionRow.created_at.desc()).limit(1)).first() or []


def _decided(row: SessionRow) -> Stop | None:
    if row.stop_at is None or row.stop_cause is None:
        return None
    return Stop(to_seconds(row.stop_at), Cause(row.stop_cause))


def _to_alert(row: AlertRow) -> Alert:
    return Alert(
        id=row.id,
        budget=row.budget,
        owner=row.owner,
        period_start=row.period_start,
        percent=row.percent,
        spent=row.spent,
        amount=row.amount,
        forecast=to_instant(row.forecast) if row.forecast is not None else None,
        raised_at=row.raised_at,
        sent_at=row.sent_at,
    )
