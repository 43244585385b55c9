"""What a person may still spend and use, as pages show it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from nbgpu.core.budgets import Account
from nbgpu.core.periods import to_instant, to_seconds
from nbgpu.core.quotas import LimitKind, Quota, describe_window, render_hours
from nbgpu.core.texts import Text
from nbgpu.core.units import render_money

NEARLY = 80  # percent from which a meter warns


class Purse(Protocol):
    """What knows what people may still have. Each call may block: use a thread."""

    def accounts(self, username: str, groups: Iterable[str]) -> tuple[Account, ...]:
        """Return the budgets that pay for a person as they stand. Raises StoreError."""

    def quotas(self, username: str, groups: Iterable[str] | None = None) -> tuple[Quota, ...]:
        """Return a person's limits as they stand. Raises StoreError."""

    def costs(self, session_ids: Iterable[str]) -> dict[str, int]:
        """Return what sessions have cost so far, in micro-units. Raises StoreError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """One budget or quota as a bar with words."""

    title: Text
    percent: int  # used, 0 to 100
    used: Text
    left: Text
    until: datetime | None  # when it begins anew
    forecast: datetime | None = None  # when it is used up at the pace so far; None where it lasts

    @property
    def level(self) -> str:
        """How near the end it is: "ok", "low" or "out"."""
        return "out" if self.percent >= 100 else "low" if self.percent >= NEARLY else "ok"


def build_meters(
    accounts: Iterable[Account], quotas: Iterable[Quota], currency: str, now: datetime
) -> tuple[Meter, ...]:
    """Return a meter for each budget, then for each quota of GPU-hours; the others are told when they are met."""
    budgets = [_of_account(account, currency, to_seconds(now)) for account in accounts]
    return (*budgets, *(_of_quota(quota) for quota in quotas if quota.limit.kind is LimitKind.GPU_SECONDS))


def _of_account(account: Account, currency: str, now: int) -> Meter:
    forecast = account.forecast(now) if account.alerts_due() else None
    return Meter(
        title=Text("Budget of group “%(group)s”", group=account.owner) if account.budget.is_pool else Text("My budget"),
        percent=min(100, account.percent),
        used=account.describe_spent(currency),
        left=_describe_left(
            render_money(max(0, account.left - account.held)), render_money(account.held), Text(currency), account.held
        ),
        until=to_instant(account.period.end),
        forecast=to_instant(forecast) if forecast is not None and forecast > now else None,
    )


def _of_quota(quota: Quota) -> Meter:
    limit = quota.limit
    left = max(0, limit.value - quota.used - quota.held)
    used = Text(
        "%(used)s of %(limit)s %(window)s used",
        used=render_hours(quota.used),
        limit=render_hours(limit.value),
        window=describe_window(limit.window),
    )
    return Meter(
        title=Text("GPU-hours, “%(flavor)s”", flavor=limit.flavor) if limit.flavor else Text("GPU-hours"),
        percent=min(100, quota.used * 100 // limit.value) if limit.value else 100,
        used=used,
        left=_describe_left(render_hours(left), render_hours(quota.held), Text("GPU-hours"), quota.held),
        until=to_instant(quota.resets_at) if quota.resets_at is not None else None,
    )


def _describe_left(free: str, held: str, unit: Text, is_held: int) -> Text:
    if not is_held:
        return Text("%(free)s %(unit)s free", free=free, unit=unit)
    return Text("%(free)s %(unit)s free, %(held)s held for servers that run", free=free, unit=unit, held=held)
