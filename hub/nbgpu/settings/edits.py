"""Quotas and budgets that are set while the site runs: the tables of nbgpu.toml, field by field as texts.

Each has a name, by which it is changed. What is kept is written in one way: two that mean the same are the same texts.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from pydantic import Field, ValidationError

from nbgpu.core.errors import InvalidOptions
from nbgpu.core.policy_edits import PolicyEntry, PolicyKind
from nbgpu.core.units import parse_span, render_price
from nbgpu.settings.fields import Slug
from nbgpu.settings.limits import BudgetSettings, QuotaSettings
from nbgpu.settings.mistakes import describe_mistake

BUDGET_FIELDS = ("name", "user", "group", "amount", "window", "first_day", "last_day", "alerts", "grace")
QUOTA_FIELDS = ("name", "user", "group", "flavor", "gpu_hours", "window", "servers", "gpus", "longest")
FIELDS: Mapping[PolicyKind, tuple[str, ...]] = {PolicyKind.BUDGET: BUDGET_FIELDS, PolicyKind.QUOTA: QUOTA_FIELDS}
LONGEST = 300  # characters of a field
_CALENDAR = ("day", "week", "month")
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


class NamedQuota(QuotaSettings):
    """A quota with the name by which it is changed."""

    name: Slug = Field(description="Short name.")


def parse_fields(
    kind: PolicyKind, fields: Mapping[str, str], *, flavors: Collection[str] | None = None
) -> BudgetSettings | NamedQuota:
    """Return a policy of its fields as texts; what is empty is not given. With `flavors` a quota's is among them.

    Raises InvalidOptions: the field, what was found, what is allowed.
    """
    model = BudgetSettings if kind is PolicyKind.BUDGET else NamedQuota
    try:
        found = model.model_validate(_to_values(fields))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"][:1])) or str(kind)
        raise InvalidOptions(describe_mistake(place, dict(first))) from None
    flavor = found.flavor if isinstance(found, NamedQuota) else None
    if flavor is not None and flavors is not None and flavor not in flavors:
        raise InvalidOptions(f'a quota is for flavor "{flavor}", which there is not; allowed: {sorted(flavors)}.')
    return found


def write_fields(policy: BudgetSettings | QuotaSettings, *, name: str = "") -> dict[str, str]:
    """Return a policy as texts, in the one way in which it is kept; `name` where it has none of its own."""
    found = _write_budget(policy) if isinstance(policy, BudgetSettings) else _write_quota(policy)
    named = getattr(policy, "name", name)
    return {"name": named} | {key: value for key, value in found.items() if value}


def describe_file(budgets: Iterable[BudgetSettings], quotas: Iterable[QuotaSettings]) -> tuple[PolicyEntry, ...]:
    """Return the tables of nbgpu.toml; a quota has no name there."""
    return (
        *(PolicyEntry(kind=PolicyKind.BUDGET, name=each.name, fields=write_fields(each)) for each in budgets),
        *(PolicyEntry(kind=PolicyKind.QUOTA, name="", fields=write_fields(each)) for each in quotas),
    )


def _to_values(fields: Mapping[str, str]) -> dict[str, Any]:
    given = {key: value.strip() for key, value in fields.items() if value.strip()}
    for key, value in given.items():
        if len(value) > LONGEST or not value.isprintable():
            raise InvalidOptions(f"{key}: at most {LONGEST} characters, all of which can be printed.")
    values: dict[str, Any] = dict(given)
    if "alerts" in given:
        values["alerts"] = [each for each in re.split(r"[\s,;]+", given["alerts"]) if each]
    return values


def _write_budget(policy: BudgetSettings) -> dict[str, str]:
    return {
        "user": policy.user or "",
        "group": policy.group or "",
        "amount": render_price(policy.amount),
        "window": policy.window if policy.first_day is None else "",
        "first_day": policy.first_day.isoformat() if policy.first_day is not None else "",
        "last_day": policy.last_day.isoformat() if policy.last_day is not None else "",
        "alerts": " ".join(map(str, sorted(set(policy.alerts)))),
        "grace": _write_span(policy.grace),
    }


def _write_quota(policy: QuotaSettings) -> dict[str, str]:
    return {
        "user": policy.user or "",
        "group": policy.group or "",
        "flavor": policy.flavor or "",
        "gpu_hours": _write_number(policy.gpu_hours),
        "window": _write_window(policy.window) if policy.gpu_hours is not None else "",
        "servers": _write_number(policy.servers),
        "gpus": _write_number(policy.gpus),
        "longest": _write_span(policy.longest) if policy.longest is not None else "",
    }


def _write_window(window: str) -> str:
    return window if window in _CALENDAR else _write_span(parse_span(window))


def _write_span(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    unit, factor = next((each for each in _UNITS if seconds and not seconds % each[1]), _UNITS[-1])
    return f"{seconds // factor} {unit}"


def _write_number(value: Decimal | int | None) -> str:
    if value is None:
        return ""
    return f"{value:f}".rstrip("0").rstrip(".") if isinstance(value, Decimal) and value % 1 else str(int(value))
