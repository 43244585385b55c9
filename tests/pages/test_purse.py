"""What people may still use, as pages show it: budgets and GPU-hours as meters, decided stops, costs so far."""

from datetime import UTC, datetime, timedelta

import pytest

from nbgpu.core.authorize import Cause
from nbgpu.core.budgets import Account, Budget
from nbgpu.core.leases import Lease, LeaseState, ServerRef
from nbgpu.core.periods import Period, to_seconds
from nbgpu.core.placement import Allocation
from nbgpu.core.quotas import Limit, LimitKind, Quota, Scope, Who
from nbgpu.core.windows import Window, WindowKind
from nbgpu.spawner.purse import build_meters
from nbgpu.spawner.sessions import build_session_view

START = datetime(2026, 3, 10, 12, tzinfo=UTC)
MONTH = Window(kind=WindowKind.MONTH)
PERIOD = Period(to_seconds(START), to_seconds(START + timedelta(days=22)))


def account(spent: int, held: int = 0, *, group: str | None = None, amount: int = 10_000_000) -> Account:
    who = Who(Scope.GROUP, group) if group else Who(Scope.EVERYONE)
    budget = Budget(name="b", who=who, amount=amount, window=MONTH)
    return Account(budget=budget, owner=group or "ann", period=PERIOD, spent=spent, held=held)


@pytest.mark.parametrize(
    ("found", "title", "percent", "level", "used", "left"),
    [
        (account(0), "My budget", 0, "ok", "0.00 of 10.00 USD spent", "10.00 USD free"),
        (
            account(8_000_000, 500_000, group="ml"),
            "Budget of group “ml”",
            80,
            "low",
            "8.00 of 10.00 USD spent",
            "1.50 USD free, 0.50 held for servers that run",
        ),
        (account(11_000_000), "My budget", 100, "out", "11.00 of 10.00 USD spent", "0.00 USD free"),
        (
            account(-5_000_000),
            "My budget",
            0,
            "ok",
            "0.00 of 10.00 USD spent, 15.00 left (5.00 credited)",
            "15.00 USD free",
        ),
        (account(0, amount=0), "My budget", 100, "out", "0.00 of 0.00 USD spent", "0.00 USD free"),
    ],
)
def test_a_budget_is_a_meter(found, title, percent, level, used, left):
    (meter,) = build_meters([found], [], "USD", START)
    assert (str(meter.title), meter.percent, meter.level) == (title, percent, level)
    assert (str(meter.used), str(meter.left), meter.until) == (used, left, START + timedelta(days=22))


def test_gpu_hours_are_a_meter_and_other_quotas_none():
    rolling = Window(kind=WindowKind.ROLLING, length=7 * 86400)
    hours = Quota(limit=Limit(LimitKind.GPU_SECONDS, None, rolling, 36_000), used=9000, held=3600)
    servers = Quota(limit=Limit(LimitKind.SERVERS, None, None, 2), used=1)
    (meter,) = build_meters([], [hours, servers], "USD", START)
    assert str(meter.used) == "2.50 of 10.00 in any 168 hours used"
    assert (meter.percent, str(meter.left), meter.until) == (
        25,
        "6.50 GPU-hours free, 1.00 held for servers that run",
        None,
    )


def test_a_budget_that_will_not_last_says_until_when():
    later = START + timedelta(days=2)
    (meter,) = build_meters([account(5_000_000)], [], "USD", later)
    assert meter.forecast == later + timedelta(days=2)
    (meter,) = build_meters([account(1_000_000)], [], "USD", later)
    assert meter.forecast is None, "no alert is due yet"


def lease(**fields: object) -> Lease:
    defaults = {"session_id": "s", "server": ServerRef("ann"), "flavor": "a100", "image": "base", "image_id": "i"}
    more = {"price_per_hour": 1, "state": LeaseState.ACTIVE, "allocation": Allocation(), "created_at": START}
    return Lease(**defaults | more | {"active_at": START} | fields)


def test_a_running_session_says_until_when_and_what_it_cost():
    view = build_session_view(lease(authorized=timedelta(hours=2)), None, {}, "USD", cost=1_250_000)
    assert (view.until, view.stop, str(view.cost)) == (START + timedelta(hours=2), None, "1.25 USD")


def test_a_gpu_that_failed_is_told():
    assert build_session_view(lease(lost_devices=frozenset({"GPU-1"})), None, {}, "USD").lost == 1
    assert build_session_view(lease(), None, {}, "USD").lost == 0


def test_a_stop_that_is_decided_says_when_and_why_and_afterwards_that_it_was_that():
    due = {"stop_at": START + timedelta(minutes=5), "stop_cause": Cause.BUDGET}
    view = build_session_view(lease(**due), None, {}, "USD")
    assert (view.until, str(view.stop)) == (due["stop_at"], "the budget that pays for it is used up")
    ended = lease(**due, released_at=START + timedelta(minutes=6), release_reason="stopped")
    assert str(build_session_view(ended, None, {}, "USD").ending.why) == (
        "It was stopped: the budget that pays for it is used up."
    )
    died = lease(**due, released_at=START + timedelta(minutes=1), release_reason="The container is gone.")
    assert "container is gone" in str(build_session_view(died, None, {}, "USD").ending.why)
