"""Statements out of real databases: SQL adds up what the lines add up to, in every zone and by every dimension."""

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import event, insert

from nbgpu.core.leases import ServerRef
from nbgpu.core.periods import HOUR, to_seconds
from nbgpu.core.prices import build_prices
from nbgpu.core.statement import Amounts, Dimension, Part, ask, merge, split_charge, totals
from nbgpu.core.usage import HOUR as USAGE_HOUR
from nbgpu.core.usage import Metered, Usage, UsageEntry
from nbgpu.store import open_database
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.metering import SqlMetering
from nbgpu.store.prices import SqlPrices
from nbgpu.store.schema import SessionRow
from nbgpu.store.statements import SqlStatements
from nbgpu.store.usage import SqlUsage
from nbgpu.store.work import unit_of_work
from store.conftest import START  # 2026-03-29 00:30 UTC: the night of the change to summer time in Europe

FIRST, LAST = date(2026, 3, 27), date(2026, 4, 2)
NOW = START + timedelta(days=20)
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Asia/Kolkata", "Australia/Lord_Howe"]
DIMENSIONS = [
    (),
    (Dimension.USER,),
    (Dimension.GROUP,),
    (Dimension.FLAVOR,),
    (Dimension.SKU,),
    (Dimension.SESSION,),
    (Dimension.DAY,),
    (Dimension.MONTH,),
    (Dimension.DAY, Dimension.USER),
    (Dimension.USER, Dimension.MONTH, Dimension.SKU),
]


@pytest.fixture
def statements(engine) -> SqlStatements:
    return SqlStatements(engine)


@pytest.fixture
def sessions(engine, store, devices, choose):
    """Sessions of three people that lasted for odd times, all posted; return their ids."""
    choice = choose(gpus=2)
    SqlPrices(engine).ensure(build_prices(replace(choice.flavor, host_price_per_hour=70_001), "USD", 0))
    started = []
    for number, minutes in enumerate((1234, 100, 3333, 59, 4321)):
        lease = store.acquire(ServerRef(("ann", "bob", "=cy")[number % 3], str(number)), choice, "sha256:1", devices)
        begin = START + timedelta(minutes=7 * number - 999, seconds=number)
        store.activate(lease.session_id, begin)
        store.release(lease.session_id, "stopped", begin + timedelta(minutes=minutes, seconds=17))
        started.append(lease.session_id)
    SqlMetering(engine).settle()
    return started


def add_busy(engine, session_id, *hours):
    """Note that a GPU was at work for a quarter of each of these hours."""
    usage = Usage(sampled_ms=3_600_000, busy_ms=900_001)
    entries = [UsageEntry(Metered(session_id, "GPU-0"), hour, usage, "run") for hour in hours]
    SqlUsage(engine).write({USAGE_HOUR: entries}, {})


@pytest.mark.parametrize("dimensions", DIMENSIONS, ids=lambda found: "+".join(found) or "none")
def test_sql_adds_up_as_the_lines_do(engine, statements, sessions, dimensions):
    """The oracle divides each single line of the ledger in Python."""
    charges = SqlLedger(engine).charges()
    for zone in map(ZoneInfo, ZONES):
        question = ask(dimensions, FIRST, LAST, zone)
        expected = merge(
            Part(question.key(_values(charge, dimensions), number), charge.billing_currency, amounts)
            for charge in charges
            for number, amounts in split_charge(question, charge)
        )
        assert statements.read(question, NOW) == expected
        assert len(expected) > 0


def _values(charge, dimensions):
    names = {
        Dimension.USER: charge.username,
        Dimension.GROUP: charge.billing_group,
        Dimension.FLAVOR: charge.flavor,
        Dimension.SKU: charge.sku_id,
        Dimension.SESSION: charge.session_id,
    }
    return [names[each] for each in dimensions if each in names]


@pytest.mark.parametrize("zone", ZONES)
def test_days_add_up_to_the_whole_and_neighbouring_statements_to_both_together(engine, statements, sessions, zone):
    add_busy(engine, sessions[0], *(START.replace(minute=0) + timedelta(hours=hour) for hour in range(-20, 20)))
    there = ZoneInfo(zone)
    whole = totals(statements.read(ask([], FIRST, LAST, there), NOW))
    by_day = totals(statements.read(ask([Dimension.DAY], FIRST, LAST, there), NOW))
    halves = [
        *statements.read(ask([], FIRST, date(2026, 3, 29), there), NOW),
        *statements.read(ask([], date(2026, 3, 30), LAST, there), NOW),
    ]
    assert whole == by_day == totals(halves)
    assert whole["USD"].gpu_seconds == 2 * whole["USD"].server_seconds > 0
    assert whole["USD"].busy_ms == 40 * 900_001


def test_all_that_was_posted_is_in_a_statement_of_all_time(engine, statements, sessions):
    charges = SqlLedger(engine).charges()
    whole = totals(statements.read(ask([], date(2026, 1, 1), date(2026, 12, 31), UTC), NOW))["USD"]
    assert whole.cost == sum(charge.billed_cost for charge in charges)
    assert whole.server_seconds + whole.gpu_seconds == sum(charge.consumed_seconds for charge in charges)


def test_what_runs_is_charged_up_to_now_and_marked(engine, statements, store, devices, choose):
    choice = choose(gpus=1)
    SqlPrices(engine).ensure(build_prices(choice.flavor, "USD", 0))
    lease = store.acquire(ServerRef("ann"), choice, "sha256:1", devices)
    store.activate(lease.session_id, START)
    metering = SqlMetering(engine)
    metering.note_seen([lease.session_id], START + timedelta(minutes=100))
    metering.settle()
    question = ask([Dimension.USER], date(2026, 3, 29), date(2026, 3, 29), UTC)
    (line,) = statements.read(question, START + timedelta(minutes=100))
    assert (line.key, line.amounts.gpu_seconds) == (("ann",), 6000)
    assert (line.amounts.cost, line.amounts.accrued) == (1_000_000, 100_000)  # 0.60 an hour; the hour from 2:00 runs
    again = statements.read(ask([Dimension.USER], date(2026, 3, 30), date(2026, 3, 30), UTC), START)
    assert again == ()


def test_a_person_sees_their_own_and_a_group_its_own(engine, statements, sessions):
    with unit_of_work(engine) as db:
        db.execute(
            insert(SessionRow).values(
                session_id="g", username="ann", servername="x", flavor="cpu", image="base", image_id="i",
                price_per_hour=1, state="released", created_at=START, active_at=START, billing_group="lab",
                released_at=START + timedelta(hours=2), ended_at=START + timedelta(hours=2), release_reason="stopped",
            )
        )  # fmt: skip
    SqlPrices(engine).ensure(
        [replace(price, sku_id="cpu:host:on-demand") for price in SqlPrices(engine).sheet().current(0)[:1]]
    )
    SqlMetering(engine).settle()
    add_busy(engine, "g", START.replace(minute=0) + timedelta(hours=1))
    add_busy(engine, sessions[1], START.replace(minute=0))
    everybody = statements.read(ask([Dimension.USER], FIRST, LAST, UTC), NOW)
    assert [line.key for line in everybody] == [("=cy",), ("ann",), ("bob",)]
    (ann,) = statements.read(ask([Dimension.USER], FIRST, LAST, UTC, username="ann"), NOW)
    assert ann == everybody[1]
    (lab,) = statements.read(ask([Dimension.GROUP], FIRST, LAST, UTC, billing_group="lab"), NOW)
    assert (lab.key, lab.amounts.server_seconds, lab.amounts.busy_ms) == (("lab",), 7200, 900_001)
    assert everybody[2].amounts.busy_ms == 900_001


@pytest.mark.parametrize("zone", [UTC, ZoneInfo("Asia/Kathmandu"), ZoneInfo("Australia/Lord_Howe")], ids=str)
def test_what_one_is_told_by_day_is_their_part_of_what_is_told_of_all(engine, statements, sessions, zone):
    for number, session in enumerate(sessions):
        add_busy(engine, session, *(START.replace(minute=0) + timedelta(hours=each) for each in range(number, 60, 3)))
    dimensions = [Dimension.DAY, Dimension.USER, Dimension.FLAVOR]
    everybody = statements.read(ask(dimensions, FIRST, LAST, zone), NOW)
    for user in ("ann", "bob", "=cy"):
        found = statements.read(ask(dimensions, FIRST, LAST, zone, username=user), NOW)
        assert found == tuple(line for line in everybody if line.key[1] == user)
    assert len({line.key[0] for line in everybody if line.amounts.busy_ms}) > 1


def test_busy_and_leased_stand_side_by_side_and_what_nobody_sampled_is_not_zero(engine, statements, sessions):
    hour = START.replace(minute=0)
    add_busy(engine, sessions[0], hour, hour + timedelta(hours=1))
    SqlUsage(engine).write(
        {USAGE_HOUR: [UsageEntry(Metered(sessions[1], "GPU-0"), hour, Usage(sampled_ms=1000), "run")]}, {}
    )
    lines = {line.key[0]: line.amounts for line in statements.read(ask([Dimension.SESSION], FIRST, LAST, UTC), NOW)}
    assert lines[sessions[0]].busy_ms == 2 * 900_001
    assert (lines[sessions[1]].busy_ms, lines[sessions[2]].busy_ms) == (None, None)
    by_sku = {line.key[0]: line.amounts for line in statements.read(ask([Dimension.SKU], FIRST, LAST, UTC), NOW)}
    assert {sku: amounts.busy_ms for sku, amounts in by_sku.items()} == {
        "gpu:gpu:on-demand": 2 * 900_001,
        "gpu:host:on-demand": None,
    }


def test_what_is_not_charged_is_not_compared_with_what_is(engine, statements, sessions):
    hour = START.replace(minute=0)
    add_busy(engine, sessions[0], hour)
    with unit_of_work(engine) as db:
        db.get_one(SessionRow, sessions[0]).billable = False
    assert totals(statements.read(ask([], FIRST, LAST, UTC), NOW))["USD"].busy_ms is None


def test_credits_are_in_the_statement_of_the_day_they_begin_in(engine, statements, sessions):
    before = totals(statements.read(ask([], FIRST, LAST, ZoneInfo("Asia/Kathmandu")), NOW))["USD"]
    usage = SqlLedger(engine).charges()[0]
    midnight = to_seconds(datetime(2026, 3, 28, 18, 15, tzinfo=UTC))
    SqlLedger(engine).post(
        [
            replace(
                usage,
                charge_key="credit",
                charge_category="Credit",
                billed_cost=-500,
                consumed_seconds=0,
                charge_period_start=midnight - 1,
                charge_period_end=midnight + 30 * 86400,
                author="admin",
            )
        ]
    )
    after = statements.read(ask([Dimension.DAY], FIRST, LAST, ZoneInfo("Asia/Kathmandu")), NOW)
    assert totals(after)["USD"] == before + Amounts(cost=-500)


def test_single_lines_are_those_that_begin_in_the_time(engine, statements, sessions):
    question = ask([], FIRST, LAST, UTC)
    found = list(statements.charges(question, NOW))
    assert all(posted for _, posted in found)
    assert sum(charge.billed_cost for charge, _ in found) == totals(statements.read(question, NOW))["USD"].cost
    of_bob = statements.charges(ask([], FIRST, LAST, UTC, username="bob"), NOW)
    assert {charge.username for charge, _ in of_bob} == {"bob"}


def test_a_line_of_usage_is_never_longer_than_an_hour_of_utc(engine, sessions):
    """What the statement's queries stand on."""
    for charge in SqlLedger(engine).charges():
        assert charge.charge_period_start // HOUR == (charge.charge_period_end - 1) // HOUR


@pytest.mark.parametrize("dimensions", DIMENSIONS, ids=lambda found: "+".join(found) or "none")
def test_sqlite_reads_the_time_that_is_asked_for_and_no_other(sqlite_url, dimensions):
    """How much other months hold makes no difference: every table is entered by an index, most often that of time."""
    engine = open_database(sqlite_url)
    plans = []

    def explain(_connection, cursor, statement, parameters, *_):
        if statement.startswith("SELECT") and re.search("FROM (charges|usage_hours|sessions)", statement):
            with closing(sqlite3.connect(engine.url.database)) as other:
                plans.extend(row[3] for row in other.execute(f"EXPLAIN QUERY PLAN {statement}", parameters))

    event.listen(engine, "before_cursor_execute", explain)
    for question in (
        ask(dimensions, FIRST, LAST, ZoneInfo("Asia/Kathmandu")),
        ask(dimensions, FIRST, LAST, UTC, username="ann"),
        ask(dimensions, FIRST, LAST, UTC, billing_group="lab"),
    ):
        SqlStatements(engine).read(question, NOW)
    engine.dispose()
    assert [plan for plan in plans if plan.startswith("SCAN") and "anon_1" not in plan] == []
    assert any("ix_charges_period" in plan for plan in plans)
    assert any("ix_charges_user" in plan for plan in plans)
    assert any("ix_usage_hours_starts_at" in plan for plan in plans)
    assert any("ix_sessions_unsettled" in plan for plan in plans)
