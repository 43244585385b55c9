"""What quotas and budgets need to know of sessions, as of one instant, read in the transaction that acts on it.

Used time comes from the sessions themselves, spent money from the ledger and from what running sessions have cost
beyond it: nothing is known later than the clock. Everything is read once, however many people and pools ask.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session, selectinload

from nbgpu.core.authorize import Policies, Standing
from nbgpu.core.budgets import Account, Budget, in_force
from nbgpu.core.ledger import Charge, SessionFacts
from nbgpu.core.periods import HOUR, Period, to_instant
from nbgpu.core.prices import PriceSheet
from nbgpu.core.quotas import Ask, Tenure
from nbgpu.core.windows import WindowKind
from nbgpu.store.metering import UNSETTLED, find_accrued, to_facts
from nbgpu.store.prices import read_sheet
from nbgpu.store.schema import ChargeRow, LeaseRow, SessionRow

Payer = tuple[bool, str]  # whether it is a group's pool, and the group's or user's name


class Book:
    """The sessions that are not settled, with what they have cost, used and may still use; `only` picks some."""

    def __init__(self, db: Session, policies: Policies, now: int, only: ColumnElement[bool] | None = None) -> None:
        self._db = db
        self.policies = policies
        self._only = only
        self._sums: dict[tuple[str, str], int] = {}
        self._posted_by_owner: dict[str, dict[str, int]] = {}  # by budget; of those that were read for all
        self.now = now

    @cached_property
    def rows(self) -> list[SessionRow]:
        """The sessions, oldest first."""
        query = select(SessionRow).where(UNSETTLED).options(selectinload(SessionRow.slots))
        if self._only is not None:
            query = query.where(self._only)
        return list(self._db.scalars(query.order_by(SessionRow.created_at, SessionRow.session_id)))

    @property
    def open_rows(self) -> list[SessionRow]:
        """Those that are not over, oldest first."""
        return [row for row in self.rows if row.released_at is None]

    @cached_property
    def sheet(self) -> PriceSheet:
        """All prices."""
        return read_sheet(self._db)

    @cached_property
    def facts(self) -> dict[str, SessionFacts]:
        """What each session's charges follow from."""
        return {row.session_id: to_facts(row) for row in self.rows}

    @cached_property
    def accrued(self) -> list[Charge]:
        """What the sessions have cost beyond what is posted."""
        return list(find_accrued(self._db, self.facts.values(), self.sheet, self.now))

    # What may still be used

    @cached_property
    def allowed(self) -> dict[str, int | None]:
        """How long each session may run, in seconds; None is no limit."""
        return {row.session_id: row.authorized_seconds for row in self.open_rows}

    @cached_property
    def holds(self) -> defaultdict[Payer, int]:
        """What running sessions may still spend, in micro-units, by who pays."""
        holds: defaultdict[Payer, int] = defaultdict(int)
        for row in self.open_rows:
            for payer in payers_of(row):
                holds[payer] += self._held(row, self.allowed[row.session_id])
        return holds

    def forget_holds(self) -> None:
        """Have no session hold anything, for whoever works out anew what each may run."""
        self.allowed = dict.fromkeys(self.allowed, 0)
        self.holds = defaultdict(int)

    def allow(self, row: SessionRow, seconds: int | None) -> None:
        """Have a session, which holds nothing, hold what it needs to run so long."""
        self.allowed[row.session_id] = seconds
        for payer in payers_of(row):
            self.holds[payer] += self._held(row, seconds)

    def _held(self, row: SessionRow, seconds: int | None) -> int:
        left = max(0, (seconds or 0) - self._elapsed(row))
        return left * self.rates[row.session_id] // HOUR

    # Who asks

    @cached_property
    def rates(self) -> dict[str, int]:
        """What an hour of each session costs now, in micro-units."""
        return {
            row.session_id: self.hourly(row.flavor, count_held(row), row.price_per_hour, row.tariff)
            for row in self.rows
        }

    def hourly(self, flavor: str, devices: int, default: int, tariff: str = "on-demand") -> int:
        """Return what an hour of a flavor with so many devices costs now, in micro-units."""
        found = self.sheet.hourly(flavor, devices, self.now, tariff)
        return default if found is None else found

    def ask(self, row: SessionRow) -> Ask:
        """Return what a running session asks for: to go on."""
        return Ask(
            username=row.username,
            groups=tuple(row.user_groups),
            flavor=row.flavor,
            title=row.flavor,
            devices=count_held(row),
            price_per_hour=self.rates[row.session_id],
            time_limit=row.time_limit,
            elapsed=self._elapsed(row),
        )

    def priced(self, ask: Ask) -> Ask:
        """Return what a start asks for, at the price of now."""
        return replace(ask, price_per_hour=self.hourly(ask.flavor, ask.devices, ask.price_per_hour))

    def _elapsed(self, row: SessionRow) -> int:
        return self.facts[row.session_id].charged(self.now).seconds

    # What is used

    def standing(self, ask: Ask, pools: Iterable[Budget]) -> Standing:
        """Return what a person has used, and the accounts that pay for them."""
        own = [self.account(each, ask.username) for each in self.policies.own_budgets(ask.username)]
        shared = [self.account(each, each.who.name) for each in pools]
        return Standing(self.tenures(ask.username), in_force(own), in_force(shared))

    def account(self, budget: Budget, owner: str) -> Account:
        """Return a budget as it stands for an owner: a user name, or a group for a pool."""
        period = budget.window.period(self.now, self.policies.zone)
        return Account(
            budget=budget,
            owner=owner,
            period=period,
            spent=self._spent(budget, owner, period),
            held=self.holds[budget.is_pool, owner],
            in_force=budget.window.kind is not WindowKind.TERM or period.start <= self.now < period.end,
        )

    def _spent(self, budget: Budget, owner: str, period: Period) -> int:
        """What is in the ledger and what is not yet; summed once, though each session of a pool asks."""
        key = budget.name, owner
        if key not in self._sums:
            accrued = self._accrued_by_payer[budget.is_pool, owner]
            fresh = sum(
                each.billed_cost
                for each in accrued
                if period.start <= each.charge_period_start < period.end
                and each.billing_currency == self.policies.currency
            )
            self._sums[key] = self._posted(budget, owner) + fresh
        return self._sums[key]

    @cached_property
    def _accrued_by_payer(self) -> defaultdict[Payer, list[Charge]]:
        found: defaultdict[Payer, list[Charge]] = defaultdict(list)
        for charge in self.accrued:
            for payer in payers_of(charge):
                found[payer].append(charge)
        return found

    def read_posted(self) -> None:
        """Read what all owners have spent, with one query a budget: for who asks for all accounts."""
        for budget in self.policies.budgets:
            column = _payer_column(budget)
            query = select(column, func.sum(ChargeRow.billed_cost)).where(*self._counted(budget)).group_by(column)
            self._posted_by_owner[budget.name] = {owner: int(spent) for owner, spent in self._db.execute(query)}

    def _posted(self, budget: Budget, owner: str) -> int:
        if budget.name in self._posted_by_owner:
            return self._posted_by_owner[budget.name].get(owner, 0)
        query = select(func.coalesce(func.sum(ChargeRow.billed_cost), 0))
        return int(self._db.scalar(query.where(_payer_column(budget) == owner, *self._counted(budget))) or 0)

    def _counted(self, budget: Budget) -> tuple[ColumnElement[bool], ...]:
        """Which lines of the ledger count for a budget now."""
        period = budget.window.period(self.now, self.policies.zone)
        return (
            ChargeRow.charge_period_start >= period.start,
            ChargeRow.charge_period_start < period.end,
            ChargeRow.billing_currency == self.policies.currency,
        )

    def tenures(self, username: str) -> tuple[Tenure, ...]:
        """Return a person's sessions as far back as any quota counts; nothing where there is no quota."""
        if not self.policies.quotas:
            return ()
        return (*self._settled_of(username), *(self._tenure(row) for row in self._by_user.get(username, ())))

    @cached_property
    def _by_user(self) -> dict[str, list[SessionRow]]:
        found: dict[str, list[SessionRow]] = {}
        for row in self.rows:
            found.setdefault(row.username, []).append(row)
        return found

    def _tenure(self, row: SessionRow) -> Tenure:
        return Tenure(
            session_id=row.session_id,
            flavor=row.flavor,
            devices=count_held(row),
            period=self.facts[row.session_id].charged(self.now),
            running=row.released_at is None,
            authorized=self.allowed.get(row.session_id),
        )

    def _settled_of(self, username: str) -> Iterable[Tenure]:
        if self._only is not None:  # a start: of its own person alone
            return [tenure for _, tenure in self._read_settled(SessionRow.username == username)]
        return self._settled.get(username, ())

    @cached_property
    def _settled(self) -> dict[str, list[Tenure]]:
        """The settled sessions of everybody who has others, by user."""
        found: dict[str, list[Tenure]] = {}
        for username, tenure in self._read_settled(SessionRow.username.in_(sorted(self._by_user))):
            found.setdefault(username, []).append(tenure)
        return found

    def _read_settled(self, whose: ColumnElement[bool]) -> Iterable[tuple[str, Tenure]]:
        """Yield settled sessions with their user, back to where the longest window begins."""
        starts = [
            policy.window.period(self.now, self.policies.zone).start
            for policy in self.policies.quotas
            if policy.gpu_seconds is not None and policy.window is not None
        ]
        return _read_settled(self._db, min(starts), whose) if starts else ()


def _payer_column(budget: Budget) -> InstrumentedAttribute[str]:
    return ChargeRow.billing_group if budget.is_pool else ChargeRow.username


def count_held(row: SessionRow) -> int:
    """Return how many devices a session still holds, those that failed or vanished not counted."""
    return sum(slot.lost_at is None and slot.released_at == row.released_at for slot in row.slots)


def paid_with(username: str, pools: Iterable[Budget]) -> ColumnElement[bool]:
    """Return the condition of the sessions that a person's budgets and these pools pay for."""
    return or_(SessionRow.username == username, SessionRow.billing_group.in_([pool.who.name for pool in pools]))


def payers_of(found: SessionRow | Charge) -> tuple[Payer, Payer]:
    """Return whose money pays for a session or charge: the person's, and the pool's."""
    return (False, found.username), (True, found.billing_group)


def _read_settled(db: Session, since: int, whose: ColumnElement[bool]) -> Iterable[tuple[str, Tenure]]:
    devices = (
        select(func.count())
        .select_from(LeaseRow)
        .where(LeaseRow.session_id == SessionRow.session_id, LeaseRow.lost_at.is_(None))
    )
    query = select(
        SessionRow.username,
        SessionRow.session_id,
        SessionRow.flavor,
        SessionRow.active_at,
        func.coalesce(SessionRow.ended_at, SessionRow.seen_at),
        SessionRow.clock_shift,
        devices.scalar_subquery(),
    ).where(
        SessionRow.settled,
        SessionRow.billable,
        SessionRow.active_at.is_not(None),
        SessionRow.released_at >= to_instant(since),
        whose,
    )
    for username, session_id, flavor, active_at, end, shift, count in db.execute(query):
        start = int(active_at.timestamp())
        period = Period(start, max(start, int(end.timestamp()) + shift if end is not None else start))
        yield username, Tenure(session_id=session_id, flavor=flavor, devices=count, period=period, running=False)
