"""The ledger: lines are added once, in sealed batches, and what is done to them later shows."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import event, text

from nbgpu.core.ledger import Charge
from nbgpu.store.ledger import SqlLedger

CHARGE = Charge(
    charge_key="s|sku|GPU-1|3600",
    session_id="s",
    username="ann",
    billing_group="",
    flavor="a100",
    sku_id="sku",
    resource_id="GPU-1",
    charge_category="Usage",
    charge_period_start=3600,
    charge_period_end=7200,
    consumed_seconds=3600,
    consumed_unit="GPU-Hours",
    list_unit_price=1_900_000,
    billed_cost=1_900_000,
    billing_currency="USD",
)


def charges(count: int, first: int = 0) -> list[Charge]:
    return [replace(CHARGE, charge_key=f"s|sku|GPU-1|{number}") for number in range(first, first + count)]


@pytest.fixture
def ledger(engine) -> SqlLedger:
    return SqlLedger(engine)


def test_a_line_is_added_once_however_often_it_comes(ledger):
    assert ledger.post([CHARGE, CHARGE]) == 1
    assert ledger.post([CHARGE]) == 0
    assert ledger.post(charges(3)) == 3
    assert ledger.post(charges(5)) == 2
    assert ledger.post([]) == 0
    assert ledger.charges() == (CHARGE, *charges(5))


@pytest.mark.case(32)
def test_the_same_lines_from_four_sides_at_once_are_added_once(ledger):
    barrier = threading.Barrier(4)

    def post(_: int) -> int:
        barrier.wait(timeout=10)
        return ledger.post(charges(50))

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(post, range(4))) == 50
    assert ledger.charges() == tuple(charges(50))
    assert ledger.verify().broken_from is None


@pytest.fixture
def posted(ledger) -> SqlLedger:
    for first in (0, 3, 6):
        ledger.post(charges(3, first))
    return ledger


def test_a_ledger_as_it_was_posted_is_whole(posted):
    verdict = posted.verify()
    assert (verdict.charges, verdict.seals, verdict.broken_from) == (9, 3, None)
    posted.post(charges(1, 9))
    assert posted.verify(head=verdict.head).broken_from is None


@pytest.mark.parametrize(
    ("statement", "broken_from"),
    [
        ("UPDATE charges SET billed_cost = billed_cost - 1 WHERE id = 5", 4),
        ("UPDATE charges SET username = 'bob' WHERE id = 9", 7),
        ("UPDATE charges SET recorded_at = 1 WHERE id = 1", 1),
        ("DELETE FROM charges WHERE id = 2", 1),
        ("DELETE FROM charges WHERE id > 7", 7),
        ("UPDATE charges SET id = 100 WHERE id = 4", 4),
        ("UPDATE charges SET charge_class = 'Correction' WHERE id = 6", 4),
    ],
)
def test_what_is_done_to_a_line_later_shows(posted, engine, statement, broken_from):
    with engine.begin() as connection:
        assert connection.execute(text(statement)).rowcount
    assert posted.verify().broken_from == broken_from


def test_a_line_that_is_put_in_past_the_ledger_shows(posted, engine):
    with engine.begin() as connection:
        names = ", ".join(row for row in CHARGE.__slots__ if row != "charge_key")
        connection.execute(
            text(
                f"INSERT INTO charges (id, charge_key, recorded_at, {names}) "
                f"SELECT 10, 'more', recorded_at, {names} FROM charges WHERE id = 9"
            )
        )
    assert posted.verify().broken_from == 10


def test_a_tail_that_is_cut_off_with_its_seal_shows_against_an_earlier_head(posted, engine):
    head = posted.verify().head
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM charges WHERE id > 6"))
        connection.execute(text("DELETE FROM seals WHERE id > 2"))
    assert posted.verify().broken_from is None
    assert posted.verify(head=head).broken_from == 1


def test_a_batch_that_is_posted_during_the_check_is_none_that_was_put_in(posted, engine):
    """It comes after the lines were asked for and before the seals are."""
    queries = itertools.count()

    @event.listens_for(engine, "before_cursor_execute")
    def post(connection, cursor, statement, *_):
        if "FROM seals" in statement and not next(queries):
            SqlLedger(engine).post(charges(3, 9))

    verdict = posted.verify()
    assert (verdict.charges, verdict.seals, verdict.broken_from) == (9, 3, None)
    assert posted.verify().charges == 12, "it was posted"
