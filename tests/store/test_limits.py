"""Quotas and budgets inside the lease's transaction: whatever the way in, and however many at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from nbgpu.core.authorize import Cause, Policies
from nbgpu.core.budgets import Budget
from nbgpu.core.errors import BudgetExceeded, QuotaExceeded
from nbgpu.core.leases import ServerRef
from nbgpu.core.periods import Period, to_seconds
from nbgpu.core.prices import Price, build_prices
from nbgpu.core.quotas import QuotaPolicy, Scope, Who
from nbgpu.core.windows import Window, WindowKind
from nbgpu.store import SqlLeaseStore
from nbgpu.store.book import Book
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.limits import authorize_running
from nbgpu.store.metering import SqlMetering
from nbgpu.store.prices import SqlPrices
from nbgpu.store.work import unit_of_work

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
MONTH = Window(kind=WindowKind.MONTH)
DAY = Window(kind=WindowKind.ROLLING, length=86400)
EVERYONE = Who(Scope.EVERYONE)
HOUR = timedelta(hours=1)
PRICE = 600_000  # an hour of one GPU


class StillClock:
    """A clock that is set."""

    now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def open_store(engine, clock, choose):
    def open_store(*policies: QuotaPolicy | Budget) -> SqlLeaseStore:
        quotas = tuple(each for each in policies if isinstance(each, QuotaPolicy))
        budgets = tuple(each for each in policies if isinstance(each, Budget))
        SqlPrices(engine, clock).ensure(build_prices(choose().flavor, "USD", 0))
        return SqlLeaseStore(engine, clock, Policies(quotas=quotas, budgets=budgets))

    return open_store


@pytest.fixture
def start(clock, devices, choose):
    """Start a server that runs from now on; return its lease."""

    def start(store: SqlLeaseStore, name: str = "", user: str = "ann", groups: tuple[str, ...] = (), **fields: object):
        lease = store.acquire(ServerRef(user, name), choose(**fields), "sha256:1", devices, groups=groups)
        store.activate(lease.session_id, clock.now)
        clock.now += timedelta(microseconds=1)  # no two sessions begin at one instant
        return lease

    return start


def pool(amount: int) -> Budget:
    return Budget(name="pool", who=Who(Scope.GROUP, "ml"), amount=amount, window=MONTH)


def own(amount: int) -> Budget:
    return Budget(name="own", who=EVERYONE, amount=amount, window=MONTH)


def rerun(engine, store: SqlLeaseStore, clock: StillClock) -> None:
    SqlLimits(engine, store._policies, clock).keep()


def test_without_policies_only_the_flavors_time_limit_holds(open_store, start):
    store = open_store()
    assert start(store).authorized is None
    limited = start(store, "two", time_limit=2 * HOUR, groups=("ml", "bio"))
    assert (limited.authorized, limited.authorized_by, limited.billing_group) == (2 * HOUR, Cause.TIME_LIMIT, "bio")
    assert store.find_open(limited.session_id).authorized == 2 * HOUR


def test_servers_at_one_time_are_counted_over_named_servers(open_store, start):
    store = open_store(QuotaPolicy(who=EVERYONE, servers=2))
    first = start(store)
    start(store, "two")
    start(store, user="bob")
    with pytest.raises(QuotaExceeded, match="You have 2 servers running, and may have 2"):
        start(store, "three")
    store.release(first.session_id, "stopped", NOW)
    start(store, "three")


def test_gpu_hours_count_what_ended_and_what_is_held(open_store, start, clock):
    store = open_store(QuotaPolicy(who=EVERYONE, gpu_seconds=10 * 3600, window=DAY))
    first = start(store, time_limit=4 * HOUR)
    assert start(store, "two").authorized == 6 * HOUR
    clock.now = NOW + HOUR
    store.release(first.session_id, "stopped", clock.now)
    assert start(store, "three", gpus=3, time_limit=HOUR).authorized == HOUR
    with pytest.raises(QuotaExceeded, match=r"2\.00 used and 8\.00 held by running servers, of 10\.00") as refusal:
        start(store, "four")
    assert "You can start again at" in str(refusal.value)


def test_two_of_many_at_once_get_the_last_hours(open_store, choose, devices):
    store = open_store(QuotaPolicy(who=EVERYONE, gpu_seconds=2 * 3600, window=DAY))
    barrier = threading.Barrier(8)

    def ask(number: int) -> bool:
        barrier.wait(timeout=10)
        try:
            store.acquire(ServerRef("ann", f"s{number}"), choose(time_limit=HOUR, gpus=1), "sha256:1", devices)
        except QuotaExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(ask, range(8))) == 2


def test_two_people_can_not_spend_a_pools_last_money_twice(open_store, start, clock):
    store = open_store(pool(1_000_000))
    assert start(store, groups=("ml",), time_limit=HOUR).authorized == HOUR
    second = start(store, user="bob", groups=("ml",), time_limit=HOUR)
    assert (second.authorized, second.authorized_by, second.billing_group) == (HOUR * 2 / 3, Cause.BUDGET, "ml")
    with pytest.raises(
        BudgetExceeded, match=r"group “ml” can't pay .* of 1\.00 until .*, 0\.00 are spent and 1\.00 held"
    ):
        start(store, user="eve", groups=("ml",))
    start(store, user="eve")  # is in no group: nobody's money


def test_what_is_spent_is_what_is_posted_and_what_runs_has_cost(open_store, start, clock, engine):
    store = open_store(own(3 * PRICE))
    ended = start(store)
    clock.now = NOW + HOUR
    store.release(ended.session_id, "stopped", clock.now)
    running = start(store)
    assert running.authorized == 2 * HOUR
    for settled in (False, True):
        if settled:
            SqlMetering(engine, clock).settle()
        clock.now = NOW + 1.5 * HOUR
        (account,) = SqlLimits(engine, store._policies, clock).accounts("ann", [])
        assert (account.spent, account.held) == (1.5 * PRICE, 1.5 * PRICE)


def test_another_month_has_money_anew(open_store, start, clock):
    store = open_store(own(PRICE))
    lease = start(store)
    clock.now = NOW + HOUR
    store.release(lease.session_id, "stopped", clock.now)
    with pytest.raises(BudgetExceeded, match="until 2026-04-01 00:00 UTC"):
        start(store)
    clock.now = datetime(2026, 4, 1, tzinfo=UTC)
    assert start(store).authorized == HOUR


def test_a_terms_budget_pays_in_its_term_only(open_store, start, clock):
    term = Period(to_seconds(NOW), to_seconds(NOW + 2 * HOUR))
    store = open_store(
        Budget(name="term", who=Who(Scope.GROUP, "ml"), amount=PRICE, window=Window(kind=WindowKind.TERM, term=term))
    )
    start(store, groups=("ml",), time_limit=HOUR / 2)
    for outside in (NOW - HOUR, NOW + 2 * HOUR):
        clock.now = outside
        with pytest.raises(BudgetExceeded, match="“term” .* is in force from 2026-03-10 12:00 UTC to 2026-03-10 14:00"):
            start(store, user="bob", groups=("ml",))


def test_what_others_give_back_extends_a_session_that_runs(open_store, start, clock, engine):
    store = open_store(own(2 * PRICE))
    first = start(store, time_limit=1.5 * HOUR)
    second = start(store, "two", time_limit=4 * HOUR)
    assert (second.authorized, second.authorized_by) == (HOUR / 2, Cause.BUDGET)
    clock.now = NOW + HOUR / 4
    store.release(first.session_id, "stopped", clock.now)
    rerun(engine, store, clock)
    assert store.find_open(second.session_id).authorized == 1.75 * HOUR


def test_a_price_that_goes_up_shortens_what_runs_and_the_oldest_keeps_most(open_store, start, clock, engine):
    store = open_store(own(2 * PRICE))
    old, young = start(store, time_limit=HOUR), start(store, "two", time_limit=HOUR)
    now = to_seconds(NOW)
    dear = Price(
        sku_id="gpu:gpu:on-demand", effective_from=now, unit="GPU-Hours", list_unit_price=PRICE * 3 // 2, currency="USD"
    )
    SqlPrices(engine, clock).add([dear], author="admin")
    rerun(engine, store, clock)
    assert store.find_open(old.session_id).authorized == HOUR
    found = store.find_open(young.session_id)
    assert (found.authorized, found.authorized_by) == (HOUR / 3, Cause.BUDGET)


def test_working_it_out_again_without_news_changes_nothing(open_store, start, clock, engine):
    store = open_store(own(2 * PRICE), QuotaPolicy(who=EVERYONE, gpu_seconds=9 * 3600, window=DAY))
    start(store, time_limit=HOUR)
    start(store, "two", time_limit=HOUR)
    for minutes in range(0, 60, 7):
        clock.now = NOW + timedelta(minutes=minutes)
        with unit_of_work(engine, reads_only=True) as db:
            assert authorize_running(Book(db, store._policies, to_seconds(clock.now))) == {}
