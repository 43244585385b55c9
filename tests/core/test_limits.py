"""Quotas and budgets: which limit holds, what counts, when there is more, what two can't spend twice."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbgpu.core.authorize import HOLD, LEAST, Authorization, Cause, Policies, Standing, authorize_more, authorize_start
from nbgpu.core.budgets import Account, Budget, find_pools
from nbgpu.core.errors import BudgetExceeded, QuotaExceeded
from nbgpu.core.periods import HOUR, Period, to_instant, to_seconds
from nbgpu.core.quotas import Ask, Limit, LimitKind, QuotaPolicy, Scope, Tenure, Who, limits_of, next_chance
from nbgpu.core.windows import Window, WindowKind

NOW = to_seconds(datetime(2026, 3, 29, 12, tzinfo=UTC))  # a Sunday, on which Berlin's clocks go forward
BERLIN = ZoneInfo("Europe/Berlin")
WEEK, MONTH = Window(kind=WindowKind.WEEK), Window(kind=WindowKind.MONTH)
ROLLING = Window(kind=WindowKind.ROLLING, length=24 * HOUR)
EVERYONE = Who(Scope.EVERYONE)
NOTHING = Standing()


def ask(**fields: object) -> Ask:
    defaults = {"username": "ann", "groups": ("ml", "nlp"), "flavor": "a100", "title": "One A100", "devices": 1}
    return Ask(**defaults | {"price_per_hour": 2_000_000} | fields)


def tenure(start: int, length: int, **fields: object) -> Tenure:
    defaults = {"session_id": "t", "flavor": "a100", "devices": 1, "running": False}
    return Tenure(period=Period(NOW + start, NOW + start + length), **defaults | fields)


def start(policies: Policies, standing: Standing = NOTHING, **fields: object) -> Authorization:
    return authorize_start(ask(**fields), standing, policies, NOW)


@pytest.mark.parametrize(
    ("window", "zone", "expected"),
    [
        (Window(kind=WindowKind.DAY), UTC, ("2026-03-29T00:00", "2026-03-30T00:00")),
        (Window(kind=WindowKind.DAY), BERLIN, ("2026-03-28T23:00", "2026-03-29T22:00")),
        (WEEK, BERLIN, ("2026-03-22T23:00", "2026-03-29T22:00")),
        (MONTH, BERLIN, ("2026-02-28T23:00", "2026-03-31T22:00")),
        (MONTH, ZoneInfo("Asia/Kathmandu"), ("2026-02-28T18:15", "2026-03-31T18:15")),
        (ROLLING, BERLIN, ("2026-03-28T12:00", "2026-03-29T12:00")),
        (Window(kind=WindowKind.TERM, term=Period(0, HOUR)), UTC, ("1970-01-01T00:00", "1970-01-01T01:00")),
    ],
)
def test_windows_follow_the_calendar_of_their_zone(window, zone, expected):
    period = window.period(NOW, zone)
    assert tuple(to_instant(each).strftime("%Y-%m-%dT%H:%M") for each in (period.start, period.end)) == expected


def test_the_strongest_scope_holds_and_among_groups_the_largest():
    def policy(scope: Scope, name: str, servers: int) -> QuotaPolicy:
        return QuotaPolicy(who=Who(scope, name), servers=servers)

    policies = [policy(Scope.EVERYONE, "", 9), policy(Scope.GROUP, "ml", 2), policy(Scope.GROUP, "nlp", 4)]
    assert [each.value for each in limits_of(policies, "ann", ("ml", "nlp"), "a100")] == [4]
    assert [each.value for each in limits_of(policies, "bob", (), "a100")] == [9]
    policies.append(policy(Scope.USER, "ann", 1))
    assert [each.value for each in limits_of(policies, "ann", ("ml", "nlp"), "a100")] == [1]


def test_limits_of_other_flavors_and_windows_hold_side_by_side():
    policies = [
        QuotaPolicy(who=EVERYONE, gpu_seconds=10, window=WEEK),
        QuotaPolicy(who=Who(Scope.GROUP, "ml"), gpu_seconds=40, window=MONTH),
        QuotaPolicy(who=EVERYONE, flavor="a100", gpus=1),
        QuotaPolicy(who=EVERYONE, flavor="t4", gpus=3),
    ]
    assert set(limits_of(policies, "ann", ("ml",), "a100")) == {
        Limit(LimitKind.GPU_SECONDS, None, WEEK, 10),
        Limit(LimitKind.GPU_SECONDS, None, MONTH, 40),
        Limit(LimitKind.GPUS, "a100", None, 1),
    }


@pytest.mark.parametrize(
    ("policy", "running", "message"),
    [
        ({"servers": 1}, [{}], "You have 1 servers running, and may have 1 at one time"),
        ({"servers": 1, "flavor": "a100"}, [{}], "You have 1 servers of “One A100” running"),
        ({"gpus": 2}, [{"devices": 2}], "“One A100” takes 1 GPUs; you hold 2 of the 2"),
    ],
)
def test_what_is_too_much_at_one_time_is_refused(policy, running, message):
    policies = Policies(quotas=(QuotaPolicy(who=EVERYONE, **policy),))
    standing = Standing(tuple(tenure(-60, 60, running=True, **each) for each in running))
    with pytest.raises(QuotaExceeded, match=message):
        start(policies, standing)
    ended = Standing(tuple(tenure(-60, 60, **each) for each in running))
    assert start(policies, ended).seconds is None


def test_gpu_hours_bound_the_session_and_count_what_others_hold():
    policies = Policies(quotas=(QuotaPolicy(who=EVERYONE, gpu_seconds=10 * HOUR, window=ROLLING),))
    past = tenure(-3 * HOUR, HOUR)
    running = tenure(-HOUR, HOUR, running=True, authorized=4 * HOUR, devices=2)
    assert start(policies, Standing((past,))) == Authorization(seconds=9 * HOUR, cause=Cause.QUOTA, billing_group="ml")
    assert start(policies, Standing((past, running))).seconds == (10 - 1 - 2 - 6) * HOUR
    assert start(policies, Standing((past,)), time_limit=HOUR) == Authorization(
        seconds=HOUR, cause=Cause.TIME_LIMIT, billing_group="ml"
    )
    assert start(policies, Standing((past,)), devices=0).seconds is None


def test_used_up_gpu_hours_say_when_there_are_more():
    policies = Policies(quotas=(QuotaPolicy(who=EVERYONE, gpu_seconds=2 * HOUR, window=ROLLING),), zone=BERLIN)
    standing = Standing((tenure(-20 * HOUR, HOUR), tenure(-HOUR, HOUR)))
    # 300 s are free again 4 h and 300 s from now, when the older hour leaves the window.
    with pytest.raises(QuotaExceeded, match=r"2\.00 used.* of 2\.00 in any 24 hours.* again at 2026-03-29 18:05 CEST"):
        start(policies, standing)
    weekly = Policies(quotas=(QuotaPolicy(who=EVERYONE, gpu_seconds=HOUR, window=WEEK),), zone=BERLIN)
    with pytest.raises(QuotaExceeded, match="again at 2026-03-30 00:00 CEST"):
        start(weekly, standing)


@given(
    spans=st.lists(st.tuples(st.integers(-30 * HOUR, -1), st.integers(1, 5 * HOUR), st.integers(1, 4)), max_size=6),
    value=st.integers(LEAST, 40 * HOUR),
)
def test_the_next_chance_is_the_first_instant_with_enough(spans, value):
    tenures = tuple(tenure(at, min(length, -at), devices=devices) for at, length, devices in spans)
    limit = Limit(LimitKind.GPU_SECONDS, None, ROLLING, value)

    def free(at: int) -> int:
        return value - sum(each.used(ROLLING.period(at, UTC)) for each in tenures)

    at = next_chance(limit, tenures, LEAST, NOW, UTC)
    assert free(at) >= LEAST
    assert at == NOW + 1 or free(at - 1) < LEAST


def account(spent: int, held: int = 0, *, owner: str = "ann", amount: int = 10_000_000, scope: Scope = Scope.USER):
    budget = Budget(name="b", who=Who(scope, owner), amount=amount, window=MONTH)
    return Account(budget=budget, owner=owner, period=MONTH.period(NOW, UTC), spent=spent, held=held)


@pytest.mark.parametrize(
    ("spent", "held", "seconds"),
    [(0, 0, 5 * HOUR), (6_000_000, 0, 2 * HOUR), (6_000_000, 3_000_000, HOUR // 2)],
)
def test_a_budget_bounds_the_session_by_what_is_neither_spent_nor_held(spent, held, seconds):
    found = start(Policies(), Standing(own=(account(spent, held),)))
    assert (found.seconds, found.cause) == (seconds, Cause.BUDGET)


def test_a_budget_that_is_used_up_refuses_but_for_what_costs_nothing():
    standing = Standing(own=(account(9_000_000, 900_000),))
    with pytest.raises(
        BudgetExceeded,
        match=r"Your budget can't pay for “One A100”, which takes 0\.1667 USD at the least: of 10\.00 until "
        r"2026-04-01 00:00 UTC, 9\.00 are spent and 0\.90 held",
    ):
        start(Policies(), standing)
    assert start(Policies(), standing, price_per_hour=0).seconds is None


def test_the_first_pool_that_can_pay_pays():
    pools = (account(10_000_000, owner="ml", scope=Scope.GROUP), account(0, owner="nlp", scope=Scope.GROUP))
    found = start(Policies(), Standing(pools=pools))
    assert (found.billing_group, found.seconds) == ("nlp", 5 * HOUR)
    with pytest.raises(BudgetExceeded, match="The budget of group “ml” can't pay"):
        start(Policies(), Standing(pools=pools[:1]))


def test_without_a_time_limit_a_day_is_held_at_a_time():
    assert start(Policies(), Standing(own=(account(0, amount=10**12),))).seconds == HOLD


def test_a_running_session_goes_on_by_what_is_left_of_all():
    policies = Policies(quotas=(QuotaPolicy(who=EVERYONE, servers=1, longest=3 * HOUR),))
    itself = tenure(-HOUR, HOUR, running=True)
    asked = ask(elapsed=HOUR)
    assert authorize_more(asked, Standing((itself,)), policies, NOW) == Authorization(
        seconds=2 * HOUR, cause=Cause.TIME_LIMIT
    )
    found = authorize_more(asked, Standing((itself,), own=(account(10_000_000),)), policies, NOW)
    assert (found.seconds, found.cause) == (0, Cause.BUDGET)


def test_which_budgets_are_whose():
    mine = Budget(name="mine", who=Who(Scope.USER, "ann"), amount=1, window=MONTH)
    each = Budget(name="each", who=EVERYONE, amount=1, window=MONTH)
    pool = Budget(name="pool", who=Who(Scope.GROUP, "ml"), amount=1, window=MONTH)
    policies = Policies(budgets=(each, mine, pool))
    assert (policies.own_budgets("ann"), policies.own_budgets("bob")) == ((mine,), (each,))
    assert Policies(budgets=(mine, pool)).own_budgets("bob") == ()
    assert find_pools([each, mine, pool], ("ml",)) == (pool,)


@pytest.mark.parametrize(("spent", "alerts"), [(4_999_999, ()), (5_000_000, (50,)), (8_100_000, (50, 80))])
def test_alerts_are_due_at_their_share(spent, alerts):
    assert account(spent).alerts_due() == alerts


def test_the_forecast_is_at_the_pace_so_far():
    half = account(5_000_000)
    at = half.forecast(NOW)
    assert at is None, "half of it in 28.5 of 31 days lasts"
    fast = account(9_900_000)
    gone = timedelta(seconds=NOW - fast.period.start)
    assert to_instant(fast.forecast(NOW)) - to_instant(NOW) == pytest.approx(gone / 99, abs=timedelta(seconds=1))
    assert account(10_000_000).forecast(NOW) == NOW
