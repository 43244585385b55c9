"""How long a session may run: the least of its time limit, its person's quotas and the budgets that pay for it. Pure.

What is authorized is held: quotas and budgets count it as used by everybody else's start. It is worked out at the
start, inside the lease's transaction, and again at each tick of the limits for what runs, oldest first: what others
gave back, an amount that was raised, or a window that began anew extends it, and a price that went up shortens it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from enum import StrEnum

from nbgpu.core.budgets import Account, Budget, group_own, refuse
from nbgpu.core.errors import BudgetExceeded, QuotaExceeded
from nbgpu.core.periods import HOUR
from nbgpu.core.quotas import (
    Ask,
    Limit,
    LimitKind,
    QuotaPolicy,
    Tenure,
    check_counts,
    explain_used_up,
    limits_of,
    seconds_left,
)

HOLD = 24 * 3600  # seconds that are held at a time for a session without a time limit
LEAST = 300  # seconds: a start that could not run even so long is refused


class Cause(StrEnum):
    """What ends a session that has run as long as it may."""

    TIME_LIMIT = "time_limit"
    QUOTA = "quota"
    BUDGET = "budget"
    IDLE = "idle"
    GPU_IDLE = "gpu_idle"
    MAINTENANCE = "maintenance"


@dataclass(frozen=True, slots=True)
class Policies:
    """What a site has decided."""

    quotas: tuple[QuotaPolicy, ...] = ()
    budgets: tuple[Budget, ...] = ()
    currency: str = "USD"
    zone: tzinfo = UTC  # in which days, weeks and months begin
    _own: Mapping[str, tuple[Budget, ...]] = field(init=False, repr=False, compare=False)  # by user; "" is each person

    def __post_init__(self) -> None:
        object.__setattr__(self, "_own", group_own(self.budgets))

    def own_budgets(self, username: str) -> tuple[Budget, ...]:
        """Return a person's own budgets: those set for them by name, else those for everyone."""
        return self._own.get(username) or self._own.get("", ())


@dataclass(frozen=True, slots=True)
class Standing:
    """What a person has used, and the accounts that pay for them."""

    tenures: tuple[Tenure, ...] = ()
    own: tuple[Account, ...] = ()
    pools: tuple[Account, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """How long a session may go on from now, and what sets that; None is no limit."""

    seconds: int | None
    cause: Cause | None
    billing_group: str = ""  # whose pool pays, else the first of the person's groups; "" is none
    pool: str = ""  # the budget of that group that pays, to its end; "" is none


def authorize_start(ask: Ask, standing: Standing, policies: Policies, now: int) -> Authorization:
    """Return how long a new session may run. Raises QuotaExceeded and BudgetExceeded: what is used, and what helps."""
    limits = limits_of(policies.quotas, ask.username, ask.groups, ask.flavor)
    check_counts(limits, ask, standing.tenures)
    _check_gpu_hours(limits, ask, standing, policies, now)
    for account in standing.own:
        _check_account(account, ask, policies)
    pool = _choose_pool(standing.pools, ask, policies)
    paying = replace(standing, pools=(pool,) if pool is not None else ())
    seconds, cause = _least(ask, paying, limits, policies, now)
    payer = pool.owner if pool is not None else next(iter(ask.groups), "")
    return Authorization(
        seconds=seconds, cause=cause, billing_group=payer, pool=pool.budget.name if pool is not None else ""
    )


def authorize_more(ask: Ask, standing: Standing, policies: Policies, now: int) -> Authorization:
    """Return how much longer a running session may go on; its own hold is not among those of `standing`.

    What may be had at one time is no reason to end anything.
    """
    limits = limits_of(policies.quotas, ask.username, ask.groups, ask.flavor)
    seconds, cause = _least(ask, standing, limits, policies, now)
    return Authorization(seconds=seconds, cause=cause)


def longest_session(limits: Iterable[Limit], time_limit: int | None) -> int | None:
    """Return the longest that a session may be: its flavor's time limit or its person's, whichever is less."""
    found = [limit.value for limit in limits if limit.kind is LimitKind.LONGEST]
    return min([*found, *([time_limit] if time_limit is not None else [])], default=None)


def _least(
    ask: Ask, standing: Standing, limits: tuple[Limit, ...], policies: Policies, now: int
) -> tuple[int | None, Cause | None]:
    found = [*_by_quotas(ask, standing, limits, policies, now), *_by_budgets(ask, standing)]
    longest = longest_session(limits, ask.time_limit)
    if longest is not None:
        found.append((max(0, longest - ask.elapsed), Cause.TIME_LIMIT))
    if not found:
        return None, None
    seconds, cause = min(found, key=lambda each: (each[0], each[1] is not Cause.TIME_LIMIT))
    return (seconds if longest is not None else min(seconds, HOLD)), cause


def _by_quotas(
    ask: Ask, standing: Standing, limits: Iterable[Limit], policies: Policies, now: int
) -> Iterator[tuple[int, Cause]]:
    for limit in limits:
        seconds = seconds_left(limit, ask, standing.tenures, now, policies.zone)
        if seconds is not None:
            yield seconds, Cause.QUOTA


def _by_budgets(ask: Ask, standing: Standing) -> Iterator[tuple[int, Cause]]:
    for account in (*standing.own, *standing.pools):
        seconds = account.seconds_left(ask.price_per_hour)
        if seconds is not None:
            yield seconds, Cause.BUDGET


def _check_gpu_hours(limits: Iterable[Limit], ask: Ask, standing: Standing, policies: Policies, now: int) -> None:
    for limit in limits:
        seconds = seconds_left(limit, ask, standing.tenures, now, policies.zone)
        if seconds is not None and seconds < LEAST:
            least = LEAST * ask.devices
            raise QuotaExceeded(explain_used_up(limit, standing.tenures, least, now, policies.zone))


def _check_account(account: Account, ask: Ask, policies: Policies) -> None:
    seconds = account.seconds_left(ask.price_per_hour)
    if seconds is not None and seconds < LEAST:
        raise _refuse(account, ask, policies)


def _choose_pool(pools: Iterable[Account], ask: Ask, policies: Policies) -> Account | None:
    """Return the first pool that can pay; None where the person is in none. Raises BudgetExceeded where none can."""
    first: Account | None = None
    for pool in pools:
        seconds = pool.seconds_left(ask.price_per_hour)
        if seconds is None or seconds >= LEAST:
            return pool
        first = first or pool
    if first is not None:
        raise _refuse(first, ask, policies)
    return None


def _refuse(account: Account, ask: Ask, policies: Policies) -> BudgetExceeded:
    least = ask.price_per_hour * LEAST // HOUR
    return refuse(account, title=ask.title, least=least, currency=policies.currency, zone=policies.zone)
