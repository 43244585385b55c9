"""What quotas and budgets need to know, read in the transaction that acts on it.

Used time comes from the sessions themselves, spent money from the ledger and from what running sessions have cost
beyond it: nothing is known later than the clock.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.orm import Session, selectinload

from nbgpu.core.authorize import Authorization, Policies, Standing, authorize_more, authorize_start
from nbgpu.core.budgets import Account, Budget, find_budgets, find_pools
from nbgpu.core.leases import ServerRef
from nbgpu.core.ledger import Charge, SessionFacts, by_session, rate, settle
from nbgpu.core.menu import Choice
from nbgpu.core.periods import HOUR, Period, to_instant
from nbgpu.core.prices import PriceSheet, device_sku, host_sku
from nbgpu.core.quotas import Ask, Limit, LimitKind, Tenure, limits_of
from nbgpu.core.windows import WindowKind
from nbgpu.store.ledger import select_charges
from nbgpu.store.metering import to_facts
from nbgpu.store.prices import read_sheet
from nbgpu.store.schema import ChargeRow, SessionRow

_ROUNDING = 2  # seconds


def authorize_new(
    db: Session, server: ServerRef, choice: Choice, groups: Iterable[str], policies: Policies, now: int
) -> Authorization:
    """Return how long a session that is about to begin may run. Raises QuotaExceeded and BudgetExceeded."""
    flavor = choice.flavor
    ask = Ask(
        username=server.username,
        groups=tuple(sorted(groups)),
        flavor=flavor.slug,
        title=flavor.display_name,
        devices=flavor.gpus,
        price_per_hour=flavor.price_per_hour,
        time_limit=int(flavor.time_limit.total_seconds()) if flavor.time_limit is not None else None,
    )
    if not policies.quotas and not policies.budgets:  # most sites: nothing needs to be looked up
        return authorize_start(ask, Standing(), policies, now)
    pools = find_pools(policies.budgets, ask.groups)
    book = Book(db, now, _of(ask.username, [pool.who.name for pool in pools]))
    ask = replace(ask, price_per_hour=book.hourly(ask, default=flavor.price_per_hour))
    return authorize_start(ask, book.standing(ask, policies, pools), policies, now)


def authorize_running(db: Session, policies: Policies, now: int) -> tuple[str, ...]:
    """Work out anew, oldest first, how long each running session may run; return the ids of those that changed."""
    book = Book(db, now)
    allowed: dict[str, tuple[int | None, str | None]] = {}
    for row in [row for row in book.rows if row.released_at is None]:
        ask = book.ask(row)
        pools = [each for each in find_pools(policies.budgets, ask.groups) if each.who.name == row.billing_group]
        earlier = book.standing(ask, policies, pools, allowed={**book.no_holds, **allowed})
        more = authorize_more(ask, earlier, policies, now)
        seconds = None if more.seconds is None else ask.elapsed + more.seconds
        if seconds is not None and not more.seconds and row.authorized_seconds is not None:
            seconds = min(seconds, row.authorized_seconds)  # it ran out then, not at this look
        allowed[row.session_id] = (seconds, more.cause)
    changed = [each.session_id for each in book.rows if _has_changed(each, allowed.get(each.session_id))]
    if changed:
        values = [
            {"session_id": each, "authorized_seconds": allowed[each][0], "authorized_by": allowed[each][1]}
            for each in changed
        ]
        db.execute(update(SessionRow), values)
    return tuple(changed)


def _has_changed(row: SessionRow, allowed: tuple[int | None, str | None] | None) -> bool:
    """Whether what a session may run is another, by more than what rounding to seconds does at each look."""
    if allowed is None:
        return False
    seconds, cause = allowed
    if seconds is None or row.authorized_seconds is None or cause != row.authorized_by:
        return (seconds, cause) != (row.authorized_seconds, row.authorized_by)
    return abs(seconds - row.authorized_seconds) > _ROUNDING


def accounts_of(db: Session, policies: Policies, owners: Iterable[tuple[Budget, str]], now: int) -> list[Account]:
    """Return budgets as they stand for their owners."""
    book = Book(db, now)
    return [book.account(budget, owner, policies) for budget, owner in owners]


Allowed = Mapping[str, tuple[int | None, str | None]]  # session id: seconds, and what sets them


@dataclass
class Book:
    """The sessions that are not settled, with what they have cost, as of an instant; `only` picks some."""

    db: Session
    now: int
    only: ColumnElement[bool] | None = None

    @cached_property
    def rows(self) -> list[SessionRow]:
        """The sessions, oldest first."""
        query = select(SessionRow).where(~SessionRow.settled).options(selectinload(SessionRow.slots))
        if self.only is not None:
            query = query.where(self.only)
        return list(self.db.scalars(query.order_by(SessionRow.created_at, SessionRow.session_id)))

    @cached_property
    def sheet(self) -> PriceSheet:
        """All prices."""
        return read_sheet(self.db)

    @cached_property
    def facts(self) -> dict[str, SessionFacts]:
        """What each session's charges follow from."""
        return {row.session_id: to_facts(row) for row in self.rows}

    @cached_property
    def accrued(self) -> list[Charge]:
        """What the sessions have cost beyond what is posted."""
        posted = by_session(select_charges(self.db, list(self.facts)))
        return [
            charge
            for facts in self.facts.values()
            for charge in settle(rate(facts, self.sheet, self.now), posted.get(facts.session_id, ()))
        ]

    @property
    def no_holds(self) -> Allowed:
        """Every session without any time to go on, for whoever is to be worked out before it."""
        return {row.session_id: (0, None) for row in self.rows}

    def hourly(self, ask: Ask, default: int, tariff: str = "on-demand") -> int:
        """Return what an hour of a session costs now, in micro-units."""
        host = self.sheet.at(host_sku(ask.flavor, tariff), self.now)
        device = self.sheet.at(device_sku(ask.flavor, tariff), self.now)
        if host is None:
            return default
        return host.list_unit_price + (device.list_unit_price * ask.devices if device is not None else 0)

    def ask(self, row: SessionRow) -> Ask:
        """Return what a running session asks for: to go on."""
        ask = Ask(
            username=row.username,
            groups=tuple(row.user_groups),
            flavor=row.flavor,
            title=row.flavor,
            devices=len(row.slots),
            price_per_hour=row.price_per_hour,
            time_limit=row.time_limit,
            elapsed=self._elapsed(row),
        )
        return replace(ask, price_per_hour=self.hourly(ask, default=row.price_per_hour, tariff=row.tariff))

    def standing(
        self, ask: Ask, policies: Policies, pools: Iterable[Budget], allowed: Allowed | None = None
    ) -> Standing:
        """Return what a person has used and who pays for them; `allowed` stands in for what sessions may run."""
        own = [
            self.account(each, ask.username, policies, allowed) for each in find_budgets(policies.budgets, ask.username)
        ]
        shared = [self.account(each, each.who.name, policies, allowed) for each in pools]
        return Standing(self._tenures(ask, policies, allowed), tuple(own), tuple(shared))

    def account(self, budget: Budget, owner: str, policies: Policies, allowed: Allowed | None = None) -> Account:
        """Return a budget as it stands for an owner: a user name, or a group for a pool."""
        period = budget.window.period(self.now, policies.zone)
        is_owners: Callable[[Charge | SessionRow], bool] = (
            (lambda each: each.billing_group == owner) if budget.is_pool else (lambda each: each.username == owner)
        )
        accrued = sum(
            each.billed_cost
            for each in self.accrued
            if is_owners(each) and period.start <= each.charge_period_start < period.end
        )
        held = sum(self._held(row, allowed) for row in self.rows if is_owners(row))
        spent = self._posted(budget, owner, period, policies.currency) + accrued
        in_force = budget.window.kind is not WindowKind.TERM or period.start <= self.now < period.end
        return Account(budget=budget, owner=owner, period=period, spent=spent, held=held, in_force=in_force)

    def _posted(self, budget: Budget, owner: str, period: Period, currency: str) -> int:
        column = ChargeRow.billing_group if budget.is_pool else ChargeRow.username
        query = select(func.coalesce(func.sum(ChargeRow.billed_cost), 0)).where(
            column == owner,
            ChargeRow.charge_period_start >= period.start,
            ChargeRow.charge_period_start < period.end,
            ChargeRow.billing_currency == currency,
        )
        return int(self.db.scalar(query) or 0)

    def _held(self, row: SessionRow, allowed: Allowed | None) -> int:
        """What a session may still spend."""
        if row.released_at is not None:
            return 0
        seconds = self._authorized(row, allowed)
        left = max(0, (seconds or 0) - self._elapsed(row))
        return left * self.ask(row).price_per_hour // HOUR

    def _tenures(self, ask: Ask, policies: Policies, allowed: Allowed | None) -> tuple[Tenure, ...]:
        limits = limits_of(policies.quotas, ask.username, ask.groups, ask.flavor)
        return self.tenures(ask.username, limits, policies, allowed) if limits else ()

    def tenures(
        self, username: str, limits: Iterable[Limit], policies: Policies, allowed: Allowed | None = None
    ) -> tuple[Tenure, ...]:
        """Return a person's sessions as far back as these limits count."""
        starts = [
            limit.window.period(self.now, policies.zone).start
            for limit in limits
            if limit.kind is LimitKind.GPU_SECONDS and limit.window is not None
        ]
        rows = [row for row in self.rows if row.username == username]
        if starts:
            rows += self._settled_since(username, min(starts))
        return tuple(self._tenure(row, allowed) for row in rows)

    def _settled_since(self, username: str, start: int) -> list[SessionRow]:
        query = (
            select(SessionRow)
            .where(
                SessionRow.username == username,
                SessionRow.settled,
                SessionRow.released_at >= to_instant(start),
            )
            .options(selectinload(SessionRow.slots))
        )
        return list(self.db.scalars(query))

    def _tenure(self, row: SessionRow, allowed: Allowed | None) -> Tenure:
        return Tenure(
            session_id=row.session_id,
            flavor=row.flavor,
            devices=len(row.slots),
            period=to_facts(row).charged(self.now),
            running=row.released_at is None,
            authorized=self._authorized(row, allowed),
        )

    def _authorized(self, row: SessionRow, allowed: Allowed | None) -> int | None:
        return allowed[row.session_id][0] if allowed and row.session_id in allowed else row.authorized_seconds

    def _elapsed(self, row: SessionRow) -> int:
        return self.facts[row.session_id].charged(self.now).seconds


def _of(username: str, groups: list[str]) -> ColumnElement[bool]:
    return or_(SessionRow.username == username, SessionRow.billing_group.in_(groups))
