"""Budgets: caps on money, of a person or of a group's common pool, over a month or a term. Pure.

What running sessions may still spend is held, so that two can't spend the same money. A group's budget is a pool that
its members share; one for everyone is each person's own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from nbgpu.core.errors import BudgetExceeded
from nbgpu.core.periods import HOUR, Period, to_instant
from nbgpu.core.quotas import Scope, Who
from nbgpu.core.texts import Text
from nbgpu.core.units import render_money
from nbgpu.core.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A cap on what is spent in a window."""

    name: str
    who: Who
    amount: int  # micro-units
    window: Window
    alerts: tuple[int, ...] = (50, 80, 100)  # percent of the amount
    grace: int = 600  # seconds that a server goes on after the last of it

    @property
    def is_pool(self) -> bool:
        """Whether several people spend it together."""
        return self.who.scope is Scope.GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A budget as it stands for those who spend it: a person (`owner`: user name) or a pool (`owner`: group)."""

    budget: Budget
    owner: str
    period: Period
    spent: int  # micro-units, what running sessions have cost so far included
    held: int = 0  # micro-units that running sessions may still spend
    in_force: bool = True  # False before and after a term: then nothing can be spent

    @property
    def left(self) -> int:
        """What is not spent; below 0 where it was overspent."""
        return self.budget.amount - self.spent if self.in_force else 0

    @property
    def percent(self) -> int:
        """How much of the amount is spent, rounded down, at least 0; of an amount of nothing all is."""
        return max(0, self.spent) * 100 // self.budget.amount if self.budget.amount else 100

    def describe_spent(self, currency: str) -> Text:
        """Return what is spent of it; never below 0: what was given back beyond that is told as credited."""
        spent, amount = render_money(max(0, self.spent)), render_money(self.budget.amount)
        if self.spent >= 0:
            return Text("%(spent)s of %(amount)s %(currency)s spent", spent=spent, amount=amount, currency=currency)
        return Text(
            "%(spent)s of %(amount)s %(currency)s spent, %(left)s left (%(credited)s credited)",
            spent=spent,
            amount=amount,
            currency=currency,
            left=render_money(max(0, self.left)),
            credited=render_money(-self.spent),
        )

    def seconds_left(self, price_per_hour: int) -> int | None:
        """Return how long a session of this price could run on what is neither spent nor held; None without a price."""
        if not price_per_hour:
            return None
        return max(0, self.left - self.held) * HOUR // price_per_hour

    def alerts_due(self) -> tuple[int, ...]:
        """Return the thresholds that are reached, in percent."""
        return tuple(sorted(each for each in set(self.budget.alerts) if self.in_force and self.percent >= each))

    def forecast(self, now: int) -> int | None:
        """Return when the amount will be spent at the pace of the period so far; None where it lasts to its end."""
        gone = Period(self.period.start, now).seconds
        if not self.in_force:
            return None
        if self.left <= 0:
            return now
        if self.spent <= 0 or not gone:
            return None
        at = now + self.left * gone // self.spent
        return at if at < self.period.end else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A share of a budget that was reached; money in micro-units, as it was then."""

    id: int
    budget: str
    owner: str  # user name, or group of a pool
    period_start: int  # s since the epoch
    percent: int
    spent: int
    amount: int
    forecast: datetime | None  # when all of it will be spent at the pace so far; None where it lasts
    raised_at: datetime
    sent_at: datetime | None  # None while it is to be sent


def in_force(accounts: Iterable[Account]) -> tuple[Account, ...]:
    """Return the accounts that count: those of other terms don't, unless there is none of this one."""
    accounts = tuple(accounts)
    return tuple(each for each in accounts if each.in_force) or accounts


def group_own(budgets: Iterable[Budget]) -> dict[str, tuple[Budget, ...]]:
    """Return the budgets that are no pools by the user that they are for by name; "" has those for everyone."""
    found: dict[str, tuple[Budget, ...]] = {}
    for each in budgets:
        if not each.is_pool:
            found[each.who.name] = (*found.get(each.who.name, ()), each)
    return found


def find_payer(budgets: Iterable[Budget], name: str) -> tuple[Budget, ...]:
    """Return the pool that pays for a session, by its name; nothing where none does, or it is gone."""
    return tuple(each for each in budgets if each.is_pool and each.name == name)


def find_pools(budgets: Iterable[Budget], groups: Iterable[str]) -> tuple[Budget, ...]:
    """Return the pools that members of these groups may spend from, in the settings' order."""
    groups = frozenset(groups)
    return tuple(each for each in budgets if each.is_pool and each.who.name in groups)


def refuse(account: Account, *, title: str, least: int, currency: str, zone: tzinfo) -> BudgetExceeded:
    """Return the refusal for a budget that can't pay the least of a flavor (micro-units): how it stands, until when."""
    budget = account.budget
    start, until = _render(account.period.start, zone), _render(account.period.end, zone)
    if not account.in_force:
        return BudgetExceeded(
            Text(
                "The budget “%(name)s” that would pay for this is in force from %(start)s to %(until)s. Ask an "
                "administrator for another.",
                name=budget.name,
                start=start,
                until=until,
            )
        )
    return BudgetExceeded(
        Text(
            "%(whose)s can't pay for “%(flavor)s”, which takes %(least)s %(currency)s at the least: of %(amount)s "
            "until %(until)s, %(spent)s are spent and %(held)s held by running servers. Stop a server that you do not "
            "need, take a cheaper flavor, or ask an administrator for more.",
            whose=Text("The budget of group “%(group)s”", group=account.owner)
            if budget.is_pool
            else Text("Your budget"),
            flavor=title,
            least=render_money(least),
            currency=currency,
            amount=render_money(budget.amount),
            spent=render_money(account.spent),
            held=render_money(account.held),
            until=until,
        )
    )


def _render(instant: int, zone: tzinfo) -> str:
    return to_instant(instant).astimezone(zone).strftime("%Y-%m-%d %H:%M %Z")
