"""Budgets and quotas as plain values for JSON, for the command and the API alike. Pure."""

from dataclasses import asdict
from typing import Any

from nbgpu.core.budgets import Account
from nbgpu.core.periods import to_instant
from nbgpu.core.quotas import Quota


def plain_account(account: Account, now: int) -> dict[str, Any]:
    """Return a budget as it stands, for JSON; money in micro-units."""
    forecast = account.forecast(now)
    return {
        "budget": account.budget.name,
        "owner": account.owner,
        "pool": account.budget.is_pool,
        "amount_micro": account.budget.amount,
        "spent_micro": account.spent,
        "held_micro": account.held,
        "left_micro": account.left,
        "period_start": to_instant(account.period.start).isoformat(),
        "period_end": to_instant(account.period.end).isoformat(),
        "forecast": to_instant(forecast).isoformat() if forecast is not None else None,
    }


def plain_quota(quota: Quota) -> dict[str, Any]:
    """Return a limit as it stands, for JSON; hours in seconds."""
    limit = quota.limit
    return {
        "kind": limit.kind,
        "flavor": limit.flavor,
        "window": asdict(limit.window) if limit.window is not None else None,
        "value": limit.value,
        "used": quota.used,
        "held": quota.held,
        "resets_at": to_instant(quota.resets_at).isoformat() if quota.resets_at is not None else None,
    }
