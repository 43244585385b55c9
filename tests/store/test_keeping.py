"""Keeping limits: stops that are decided, what is spent at most, alerts that are raised once."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from nbgpu.core.authorize import Cause, Policies
from nbgpu.core.budgets import Budget
from nbgpu.core.errors import StoreError
from nbgpu.core.leases import ServerRef
from nbgpu.core.ledger import total
from nbgpu.core.periods import Period, to_seconds
from nbgpu.core.quotas import QuotaPolicy, Scope, Who
from nbgpu.core.stops import Kept
from nbgpu.core.windows import Window, WindowKind
from nbgpu.store.keeping import QUOTA_GRACE, SqlLimits
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.metering import SqlMetering
from store.test_limits import DAY, EVERYONE, HOUR, MONTH, NOW, PRICE, clock, open_store, own, pool, start

__all__ = ["clock", "open_store", "start"]  # fixtures

TICK = timedelta(seconds=15)


@pytest.fixture
def keep(engine, clock):
    """Return a function that keeps the limits of some policies once."""

    def keep(*policies: QuotaPolicy | Budget) -> SqlLimits:
        quotas = tuple(each for each in policies if isinstance(each, QuotaPolicy))
        budgets = tuple(each for each in policies if isinstance(each, Budget))
        return SqlLimits(engine, Policies(quotas=quotas, budgets=budgets), clock)

    return keep


def test_a_time_limit_stops_on_the_second_and_is_known_ten_minutes_before(open_store, start, clock, keep):
    store, limits = open_store(), keep()
    lease = start(store, time_limit=HOUR)
    clock.now = NOW + HOUR - timedelta(minutes=11)
    assert limits.keep().stops == ()
    clock.now = NOW + HOUR - timedelta(minutes=10)
    (planned,) = limits.keep().stops
    assert (planned.server, planned.stop.cause) == (ServerRef("ann"), Cause.TIME_LIMIT)
    found = store.find_open(lease.session_id)
    assert (found.stop_at, found.stop_cause) == (NOW + HOUR, Cause.TIME_LIMIT)


@pytest.mark.parametrize("users", [1, 3])
def test_a_budget_is_overspent_by_a_tick_and_the_grace_at_most(open_store, start, clock, keep, engine, users):
    """People spend one pool to its end; the one who keeps the limits looks each tick and stops who is due."""
    budget = Budget(name="pool", who=Who(Scope.GROUP, "ml"), amount=PRICE, window=MONTH, grace=60)
    store, limits, metering = open_store(budget), keep(budget), SqlMetering(engine, clock)
    for number in range(users):
        start(store, user=f"u{number}", groups=("ml",), time_limit=3 * HOUR if number == users - 1 else HOUR / 4)
    while store.open_leases():
        clock.now += TICK
        assert clock.now < NOW + 4 * HOUR
        for planned in limits.keep().stops:
            if planned.stop.at <= clock.now.timestamp():
                store.release(planned.session_id, "stopped", clock.now)
    metering.settle()
    spent = total(SqlLedger(engine).charges())
    most = users * PRICE * (budget.grace + TICK.total_seconds()) / 3600
    assert PRICE <= spent <= PRICE + most


def test_used_up_hours_end_after_a_grace_and_more_hours_call_it_off(open_store, start, clock, keep):
    quota = QuotaPolicy(who=EVERYONE, gpu_seconds=3600, window=DAY)
    store = open_store(quota)
    lease = start(store)
    clock.now = NOW + HOUR + timedelta(seconds=7)
    (planned,) = keep(quota).keep().stops
    assert planned.stop.at == (NOW + HOUR).timestamp() + QUOTA_GRACE
    clock.now += TICK
    assert keep(quota).keep().stops == (planned,), "the grace does not begin anew"
    more = QuotaPolicy(who=EVERYONE, gpu_seconds=7200, window=DAY)
    assert keep(more).keep() == Kept(called_off=(lease.session_id,))
    assert keep(more).keep() == Kept()
    found = store.find_open(lease.session_id)
    assert (found.stop_at, found.stop_cause, found.authorized) == (None, None, 2 * HOUR)


def test_each_threshold_is_told_once_with_a_forecast(open_store, start, clock, keep):
    budget = own(2 * PRICE)
    store, limits = open_store(budget), keep(budget)
    start(store, time_limit=3 * HOUR)
    found = []
    for minutes in (59, 61, 62, 97, 121, 122):
        clock.now = NOW + timedelta(minutes=minutes)
        limits.keep()
        found.append([each.percent for each in limits.alerts()])
    assert found == [[], [50], [50], [80, 50], [100, 80, 50], [100, 80, 50]]
    half = limits.alerts()[-1]
    assert (half.budget, half.owner, half.amount, half.sent_at) == ("own", "ann", 2 * PRICE, None)
    assert half.forecast > half.raised_at
    limits.note_sent([half.id])
    assert {each.percent for each in limits.alerts(unsent=True)} == {80, 100}


def test_a_threshold_that_a_last_bill_reaches_is_told_too(open_store, start, clock, keep, engine):
    budget = own(2 * PRICE)
    store, limits = open_store(budget), keep(budget)
    lease = start(store)
    clock.now = NOW + HOUR / 2
    limits.keep()
    clock.now = NOW + HOUR + TICK
    store.release(lease.session_id, "stopped", clock.now)
    SqlMetering(engine, clock).settle()
    limits.keep()
    assert [each.percent for each in limits.alerts()] == [50]


def test_a_step_of_the_clock_is_no_time_that_went(open_store, start, clock, keep, engine):
    budget = own(2 * PRICE)
    store, limits, metering = open_store(budget), keep(budget), SqlMetering(engine, clock)
    lease = start(store, time_limit=HOUR)
    clock.now = NOW + timedelta(minutes=10)
    metering.note_tick(at=clock.now, uptime=600_000, boot_id="b", tolerance=2)
    metering.note_seen([lease.session_id], clock.now)
    clock.now += 3 * HOUR + TICK
    assert metering.note_tick(at=clock.now, uptime=615_000, boot_id="b", tolerance=2) == 3 * 3600
    assert limits.keep() == Kept()
    assert limits.alerts() == ()


def test_the_pool_that_paid_at_the_start_goes_on_paying(open_store, start, clock, keep):
    """Beside it the group has one that is spent, and next term's."""
    spent, pays = pool(0), Budget(name="pays", who=Who(Scope.GROUP, "ml"), amount=PRICE, window=MONTH)
    store, limits = open_store(spent, pays), keep(spent, pays)
    lease = start(store, groups=("ml",), time_limit=HOUR / 2)
    assert store.find_open(lease.session_id).paid_by == "pays"
    clock.now = NOW + HOUR / 4
    assert limits.keep().stops == ()


def test_of_a_persons_terms_only_the_present_one_counts(open_store, start, clock, keep):
    def term(name: str, begin: int, end: int) -> Budget:
        span = Period(to_seconds(NOW + begin * HOUR), to_seconds(NOW + end * HOUR))
        return Budget(name=name, who=EVERYONE, amount=PRICE, window=Window(kind=WindowKind.TERM, term=span))

    budgets = (term("this", -1, 5), term("next", 5, 9))
    store, limits = open_store(*budgets), keep(*budgets)
    start(store, time_limit=HOUR / 2)
    assert [each.budget.name for each in limits.accounts("ann", [])] == ["this"]
    assert limits.keep().stops == ()


def test_a_gpu_that_was_lost_counts_no_more(open_store, start, clock, keep, engine):
    quota = QuotaPolicy(who=EVERYONE, gpus=2, gpu_seconds=20 * 3600, window=DAY)
    store, limits = open_store(quota), keep(quota)
    lease = start(store, gpus=2, time_limit=4 * HOUR)
    store.drop_device(lease.session_id, lease.allocation.device_uuids[0])
    clock.now = NOW + HOUR
    held = {each.limit.kind: each.held for each in limits.quotas("ann", [])}
    assert held["gpu_seconds"] == 3 * 3600
    start(store, "two", gpus=1)


def test_a_raised_amount_is_told_of_anew(open_store, start, clock, keep):
    store = open_store(own(PRICE))
    start(store, time_limit=3 * HOUR)
    clock.now = NOW + HOUR * 0.6
    keep(own(PRICE)).keep()
    clock.now = NOW + HOUR
    keep(own(2 * PRICE)).keep()
    found = keep(own(PRICE)).alerts()
    assert [(each.percent, each.amount) for each in found] == [(50, 2 * PRICE), (50, PRICE)]


def test_an_alert_that_could_not_be_written_is_raised_at_the_next_look(open_store, start, clock, keep, engine):
    budget = own(2 * PRICE)
    store, limits = open_store(budget), keep(budget)
    lease = start(store)
    limits.keep()
    clock.now = NOW + HOUR + TICK
    store.release(lease.session_id, "stopped", clock.now)
    SqlMetering(engine, clock).settle()
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE alerts RENAME TO elsewhere"))
    with pytest.raises(StoreError):
        limits.keep()
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE elsewhere RENAME TO alerts"))
    limits.all_accounts()
    limits.keep()
    assert [each.percent for each in limits.alerts()] == [50]


def test_what_a_session_has_cost_is_the_same_posted_or_not(open_store, start, clock, keep, engine):
    store, limits = open_store(), keep()
    lease = start(store)
    clock.now = NOW + HOUR * 1.5
    SqlMetering(engine, clock).note_seen([lease.session_id], clock.now)
    before = limits.costs([lease.session_id])
    assert SqlMetering(engine, clock).settle() != ()
    assert limits.costs([lease.session_id]) == before == {lease.session_id: PRICE * 1.5}


def test_accounts_of_a_person_and_of_all(open_store, start, clock, keep):
    budgets = (own(2 * PRICE), pool(3 * PRICE))
    store, limits = open_store(*budgets), keep(*budgets)
    start(store, groups=("ml",), time_limit=HOUR)
    clock.now = NOW + HOUR / 2
    mine = limits.accounts("ann", ["ml"])
    assert [(each.owner, each.spent, each.held) for each in mine] == [
        ("ann", PRICE / 2, PRICE / 2),
        ("ml", PRICE / 2, PRICE / 2),
    ]
    assert {each.owner for each in limits.all_accounts()} == {"ann", "ml"}
    assert [each.owner for each in limits.accounts("bob", [])] == ["bob"]


@pytest.mark.parametrize("limited", [True, False])
def test_of_many_people_it_reads_what_it_reads_of_each(open_store, start, clock, keep, engine, limited):
    hours = QuotaPolicy(who=EVERYONE, gpu_seconds=40 * 3600, window=MONTH, servers=5)
    policies = (own(20 * PRICE), pool(30 * PRICE), hours) if limited else ()
    store, limits = open_store(*policies), keep(*policies)
    groups = {f"u{number}": ("ml",) if number % 2 else () for number in range(8)}
    for number, (name, theirs) in enumerate(groups.items()):
        over = start(store, user=name, groups=theirs)
        clock.now += HOUR
        store.release(over.session_id, "stopped", clock.now)
        if number < 5:  # of the last ones nothing is posted yet
            SqlMetering(engine, clock).settle()
        if number < 2:  # of the others nothing runs
            start(store, user=name, groups=theirs, time_limit=24 * HOUR)
    clock.now += HOUR / 4
    people = list(groups.items())
    for some in (people, people[:2], [("nobody", ())]):
        found = limits.purses(some)
        assert found == {each: (limits.accounts(*each), limits.quotas(*each)) for each in some}
        assert all(bool(accounts) == bool(quotas) == limited for accounts, quotas in found.values())
    each = {account for person in people for account in limits.accounts(*person)}
    assert {*limits.all_accounts()} == each
    assert (len(each), sum(account.spent > 0 for account in each)) == ((9, 9) if limited else (0, 0))
