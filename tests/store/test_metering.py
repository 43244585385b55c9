"""Metering: what the ledger says is what the containers' times say, whatever happens between."""

from datetime import timedelta

import pytest

from nbgpu.core.leases import ServerRef
from nbgpu.core.ledger import total
from nbgpu.core.prices import Price, build_prices
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.metering import SqlMetering
from nbgpu.store.prices import SqlPrices
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
