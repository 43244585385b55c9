"""What the hub says of a session, as tests need it."""

from datetime import datetime, timedelta
from typing import Any

from support.simulated import START


def minutes(count: float, *, now: datetime = START) -> str:
    """The instant so many minutes from now."""
    return (now + timedelta(minutes=count)).isoformat()


def a_status(*, now: datetime = START, **change: Any) -> dict[str, Any]:
    """A session's status, with what a test changes of it."""
    reasons = [
        ("kernel", "quiet", minutes(-51, now=now), None, None),
        ("cpu", "quiet", None, 0.43, 5.0),
        ("network", "active", None, 60 * 1024, 50 * 1024),
        ("gpu", "unknown", None, None, 2.0),
        ("gpu_memory", "ignored", None, None, None),
        ("a_new_one", "quiet", None, None, None),
    ]
    return {
        "session_id": "s1",
        "user": "ann",
        "server": "",
        "flavor": {"slug": "mig-1g", "display_name": "Small GPU slice", "kind": "mig"},
        "image": "base",
        "devices": [],
        "started_at": minutes(-60, now=now),
        "as_of": minutes(0, now=now),
        "currency": "USD",
        "price_per_hour_micro": 1_900_000,
        "cost_micro": 1_234_560,
        "budgets": [{"budget": "course", "left_micro": 12_000_000, "amount_micro": 20_000_000}],
        "quotas": [
            {"kind": "servers", "flavor": None, "window": None, "value": 3, "used": 1, "held": 0, "resets_at": None},
            {"kind": "gpu_seconds", "flavor": None, "window": None, "value": 360_000, "used": 180_000, "held": 3600},
        ],
        "until": minutes(600, now=now),
        "time_limit_s": 43_200,
        "stop": None,
        "idle": {
            "verdict": "idle",
            "since": minutes(-51, now=now),
            "limit_s": 3600,
            "would_stop_at": minutes(9, now=now),
            "cause": "idle",
            "reasons": [
                {
                    "signal": s,
                    "state": state,
                    "at": at,
                    "value": value,
                    "threshold": least,
                    "text": "What a later version says.",
                }
                for s, state, at, value, least in reasons
            ],
            "extended_until": None,
            "extend_s": 3600,
            "extendable_s": 7200,
        },
        **change,
    }
