"""Metering: what the ledger says is what the containers' times say, whatever happens between."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from nbgpu.core.leases import ServerRef
from nbgpu.core.ledger import build_credit, total
from nbgpu.core.periods import to_seconds
from nbgpu.core.prices import Price, build_prices
from nbgpu.store import SqlLeaseStore
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.metering import SqlMetering
from nbgpu.store.prices import SqlPrices
from nbgpu.store.schema import MeterRow
from store.conftest import START  # 2026-03-29 00:30 UTC

ANN = ServerRef("ann")
HOUR = timedelta(hours=1)


@pytest.fixture
def ledger(engine) -> SqlLedger:
    return SqlLedger(engine)


@pytest.fixture
def metering(engine) -> SqlMetering:
    return SqlMetering(engine)


@pytest.fixture
def run(engine, store, devices, choose):
    """Start a session of a flavor (0.60 an hour) at START; return its id."""

    def run(server: ServerRef = ANN, **fields: object) -> str:
        choice = choose(**fields)
        SqlPrices(engine).ensure(build_prices(choice.flavor, "USD", 0))
        lease = store.acquire(server, choice, "sha256:1", devices)
        store.activate(lease.session_id, START)
        return lease.session_id

    return run


def seconds(ledger: SqlLedger, resource: str | None = None) -> int:
    found = ledger.charges()
    return sum(each.consumed_seconds for each in found if resource is None or each.resource_id == resource)


def test_a_session_is_charged_from_its_start_to_its_finish(run, store, metering, ledger):
    session = run(gpus=2)
    store.release(session, "stopped", START + timedelta(seconds=5400))
    metering.settle()
    assert seconds(ledger, "") == 5400
    assert seconds(ledger) == 3 * 5400
    assert total(ledger.charges()) == 900_000
    assert metering.unsettled() == ()
    assert metering.settle() == ()


def test_a_running_session_is_posted_by_the_hour_it_was_seen_through(run, metering, ledger):
    session = run()
    for minutes in (10, 29, 61, 40, 95):
        metering.note_seen([session], START + timedelta(minutes=minutes))
        metering.settle()
    assert sorted({each.charge_period_start for each in ledger.charges()}) == [
        int((START + timedelta(minutes=minutes)).timestamp()) for minutes in (0, 30)
    ]
    assert seconds(ledger, "") == 5400
    accrued = metering.accrued(START + timedelta(minutes=95))
    assert sum(each.consumed_seconds for each in accrued if not each.resource_id) == 300


@pytest.mark.parametrize("known_end", [True, False], ids=["its finish is known", "nobody saw its end"])
def test_an_end_that_was_missed_for_hours_is_charged_to_what_is_known(run, store, metering, ledger, known_end):
    session = run()
    metering.note_seen([session], START + timedelta(minutes=40))
    metering.settle()
    finished = START + timedelta(minutes=45)
    store.release(session, "reconciled", finished if known_end else None)
    metering.settle()
    assert seconds(ledger, "") == (45 if known_end else 40) * 60
    assert any(each.estimated for each in ledger.charges()) is not known_end


def test_a_start_that_failed_is_not_charged_even_past_the_hour(run, store, metering, ledger):
    session = run()
    metering.note_seen([session], START + 2 * HOUR)
    metering.settle()
    assert seconds(ledger) > 0
    store.release(session, "failed start: it did not answer", START + 2 * HOUR, billable=False)
    metering.settle()
    assert (seconds(ledger), total(ledger.charges())) == (0, 0)


def test_a_failed_start_whose_end_is_left_to_others_is_not_charged_either(run, store, metering, ledger):
    session = run()
    store.mark_ending(session, billable=False)
    store.mark_ending(session)
    store.release(session, "reconciled: a stop that was broken off", START + HOUR)
    metering.settle()
    assert seconds(ledger) == 0


def test_a_device_that_was_lost_is_charged_to_its_last_good_sample(run, store, metering, ledger):
    session = run(gpus=2)
    first, second = store.find_open(session).allocation.device_uuids
    store.drop_device(session, first)  # at the store's clock, some seconds after START
    store.release(session, "stopped", START + HOUR)
    metering.settle()
    assert seconds(ledger, second) == seconds(ledger, "") == 3600
    assert 0 < seconds(ledger, first) < 60


def test_a_new_price_holds_from_its_instant_for_a_running_session_too(run, store, metering, ledger, engine, choose):
    session = run()
    sku = "gpu:gpu:on-demand"
    change = int((START + timedelta(minutes=10)).timestamp())
    price = Price(sku_id=sku, effective_from=change, unit="GPU-Hours", list_unit_price=6_000_000, currency="USD")
    SqlPrices(engine).add([price], author="admin")
    store.release(session, "stopped", START + timedelta(minutes=20))
    metering.settle()
    assert total(ledger.charges()) == 100_000 + 1_000_000


@pytest.mark.parametrize("hours", [-1, 1], ids=["back", "forward"])
@pytest.mark.parametrize("later", [0, 1, 3], ids=["ends at once", "ends after a tick", "ends after three ticks"])
def test_a_step_of_the_clock_changes_no_length(run, store, metering, ledger, hours, later):
    """Ticks each half minute; the wall clock is stepped between the second and the third."""
    session = run()
    step = hours * HOUR
    tick = timedelta(seconds=30)

    def look(number: int, *, stepped: bool, alive: bool = True) -> int:
        at = START + number * tick + (step if stepped else timedelta(0))
        found = metering.note_tick(at=at, uptime=number * 30_000, boot_id="b", tolerance=2)
        if alive:
            metering.note_seen([session], at)
        metering.settle()
        return found

    assert [look(1, stepped=False), look(2, stepped=False)] == [0, 0]
    for number in range(3, 3 + later):
        assert look(number, stepped=True) == (step.total_seconds() if number == 3 else 0)
    real_end = (2 + later) * tick + timedelta(seconds=20)
    store.release(session, "stopped", START + real_end + step)
    look(3 + later, stepped=True, alive=False)
    assert seconds(ledger, "") == real_end.total_seconds()


# Instants in seconds by a clock that nobody steps: ticks at 0, 30 and 60, one step between the first two.
STARTS = [
    # step, stepped at, lease, container's start, activated, charged of the 1000 s that it ran
    pytest.param(3600, 20, -5, 5, 40, 1000, id="forward while it starts, its container was there"),
    pytest.param(-3600, 20, -5, 5, 40, 1000, id="back while it starts, its container was there"),
    pytest.param(3600, 10, -5, 25, 40, 1000, id="forward while it starts, its container came later"),
    pytest.param(-3600, 10, -5, 25, 40, 1000, id="back while it starts, its container came later"),
    pytest.param(3600, 10, -5, 45, 50, 1000, id="forward, its container came after the next tick"),
    pytest.param(-3600, 10, -5, 45, 50, 1000, id="back, its container came after the next tick"),
    pytest.param(3600, 20, -60, -20, 40, 1000, id="forward, its container was there long and nobody looked"),
    pytest.param(-3600, 20, -60, -20, 40, 1000, id="back, its container was there long and nobody looked"),
    pytest.param(3600, 20, 2, 5, 8, 1000, id="it began before the step forward, between the same ticks"),
    pytest.param(-3600, 20, 2, 5, 8, 1000, id="it began before the step back, between the same ticks"),
    pytest.param(3600, 5, 8, 10, 12, 1000, id="it began after the step forward, between the same ticks"),
    pytest.param(-3600, 5, 8, 10, 12, 1000, id="it began after the step back, between the same ticks"),
    pytest.param(-10, 5, 18, 20, 22, 1000, id="it began after a small step back, between the same ticks"),
    pytest.param(10, 15, 8, 10, 12, 1000, id="it began before a small step forward, between the same ticks"),
    # The start can have been read from either clock: the shorter is charged.
    pytest.param(-10, 15, 8, 10, 12, 990, id="it began before a small step back"),
    pytest.param(10, 5, 6, 8, 10, 990, id="it began after a small step forward"),
]


@pytest.mark.parametrize(("size", "stepped", "leased", "started", "activated", "charged"), STARTS)
def test_a_step_while_a_session_starts(
    engine, devices, choose, metering, ledger, size, stepped, leased, started, activated, charged
):
    def wall(real: int) -> datetime:
        return START + timedelta(seconds=real + (size if real >= stepped else 0))

    now = leased
    store = SqlLeaseStore(engine, lambda: wall(now))
    choice = choose()
    SqlPrices(engine).ensure(build_prices(choice.flavor, "USD", 0))
    session = ""
    for now in sorted({-30, 0, 30, 60, leased, activated, started + 1000, started + 1010}):
        if now == leased:
            session = store.acquire(ANN, choice, "sha256:1", devices).session_id
        if now == activated:
            store.activate(session, wall(started))
        if now == started + 1000:
            store.release(session, "stopped", wall(now))
        if now in (-30, 0, 30, 60, started + 1010):
            metering.note_tick(at=wall(now), uptime=(now + 1000) * 1000, boot_id="b", tolerance=2)
            metering.note_seen([session] if now in (30, 60) and started < now else [], wall(now))
            metering.settle()
    assert seconds(ledger, "") == charged


def test_a_start_that_is_given_up_across_a_step_leaves_nothing_to_decide(store, choose, devices, metering, engine):
    metering.note_tick(at=START, uptime=0, boot_id="b", tolerance=2)
    session = store.acquire(ANN, choose(), "sha256:1", devices).session_id
    metering.note_tick(at=START + HOUR, uptime=30_000, boot_id="b", tolerance=2)
    assert undecided(engine) == [session]
    metering.note_tick(at=START + HOUR, uptime=30_000, boot_id="b", tolerance=2)
    assert undecided(engine) == [session]
    store.release(session, "cancelled")
    metering.note_tick(at=START + HOUR, uptime=30_000, boot_id="b", tolerance=2)
    assert undecided(engine) == []


def undecided(engine) -> list[str]:
    with Session(engine) as db:
        return list(db.get(MeterRow, 1).undecided)


def test_what_is_posted_for_good_is_not_looked_at_again(run, metering, ledger, engine):
    """So the work of a tick doesn't grow with a server's past; without the old lines nothing is missed."""
    session = run(gpus=2)
    metering.note_seen([session], START + 50 * HOUR)
    metering.settle()
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM charges WHERE charge_period_start < :at"), {"at": to_seconds(START) + 40})
    metering.note_seen([session], START + 51 * HOUR)
    assert {each.charge_period_start for each in metering.settle()} == {to_seconds(START) + 49 * 3600 + 1800}
    accrued = metering.accrued(START + 51 * HOUR)
    assert [each.consumed_seconds for each in accrued] == [1800] * 3


@pytest.mark.parametrize("billable", [True, False])
def test_an_end_before_what_is_posted_takes_the_rest_back(run, store, metering, ledger, billable):
    session = run(gpus=2)
    for hours in (20, 50):
        metering.note_seen([session], START + hours * HOUR)
        metering.settle()
    store.release(session, "reconciled", START + 10.25 * HOUR, billable=billable)
    metering.settle()
    assert seconds(ledger, "") == (10.25 * 3600 if billable else 0)
    assert total(ledger.charges()) == (6_150_000 if billable else 0)


def test_a_device_that_was_lost_before_what_is_posted_is_taken_back(run, store, metering, ledger):
    session = run(gpus=2)
    first, second = store.find_open(session).allocation.device_uuids
    metering.note_seen([session], START + 30 * HOUR)
    metering.settle()
    store.drop_device(session, first)  # at the store's clock, some seconds after START
    for hours in (31, 32):
        metering.note_seen([session], START + hours * HOUR)
        metering.settle()
        assert 0 < seconds(ledger, first) < 60
        assert seconds(ledger, second) == (hours - 0.5) * 3600


def test_a_credit_by_a_person_of_the_meters_name_stays(run, store, metering, ledger):
    session = run()
    credit = build_credit(
        key="1", username="ann", amount=5, currency="USD", at=1, author="meter", reason="", session_id=session
    )
    ledger.post([credit])
    store.release(session, "stopped", START + HOUR)
    metering.settle()
    assert total(ledger.charges(session_id=session)) == 600_000 - 5


def test_a_session_that_ended_before_the_step_keeps_its_length(run, store, metering, ledger):
    session = run()
    metering.note_tick(at=START + timedelta(seconds=30), uptime=30_000, boot_id="b", tolerance=2)
    metering.note_seen([session], START + timedelta(seconds=30))
    store.release(session, "stopped", START + timedelta(seconds=45))
    metering.note_tick(at=START + timedelta(seconds=60) + HOUR, uptime=60_000, boot_id="b", tolerance=2)
    metering.settle()
    assert seconds(ledger, "") == 45


def test_after_a_reboot_no_step_is_told(metering):
    metering.note_tick(at=START, uptime=900_000, boot_id="b", tolerance=2)
    assert metering.note_tick(at=START + HOUR, uptime=1000, boot_id="c", tolerance=2) == 0


def test_the_settings_prices_are_taken_over_once_and_an_admins_stay(engine, choose):
    prices = SqlPrices(engine)
    flavor = choose().flavor
    assert [each.effective_from for each in prices.ensure(build_prices(flavor, "USD", 50))] == [0, 0]
    assert prices.ensure(build_prices(flavor, "USD", 60)) == ()
    sku = "gpu:gpu:on-demand"
    prices.add(
        [Price(sku_id=sku, effective_from=70, unit="GPU-Hours", list_unit_price=5, currency="USD")], author="root"
    )
    assert prices.ensure(build_prices(flavor, "USD", 80)) == ()
    assert prices.sheet().at(sku, 100).list_unit_price == 5
    (changed,) = prices.ensure(build_prices(choose(price_per_hour=7).flavor, "USD", 90))
    assert (changed.effective_from, changed.list_unit_price) == (90, 7)
    assert [each.source for each in prices.entries()] == ["settings", "settings", "admin", "settings"]
