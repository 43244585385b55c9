"""Rating: each second once, parts that add up to the whole, late facts as corrections."""

from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.ledger import CORRECTION, Charge, Holding, SessionFacts, build_credit, due, rate, settle, total
from nbgpu.core.periods import HOUR, Period
from nbgpu.core.prices import ALWAYS, Price, PriceSheet, build_prices, device_sku, host_sku

START = 1_774_744_200  # 2026-03-29 00:30 UTC
HOST, GPU = host_sku("a100", "on-demand"), device_sku("a100", "on-demand")


def price(sku: str, micro: int, since: int = ALWAYS) -> Price:
    return Price(sku_id=sku, effective_from=since, unit="Hours", list_unit_price=micro, currency="USD")


def facts(**fields: object) -> SessionFacts:
    defaults = {"session_id": "s", "username": "ann", "flavor": "a100", "started_at": START}
    return SessionFacts(**defaults | fields)


SHEET = PriceSheet([price(HOST, 100_000), price(GPU, 1_900_000)])


def test_a_session_is_cut_at_full_hours_and_each_resource_is_a_line_of_its_own():
    ended = facts(ended_at=START + 2 * HOUR, released=True, holdings=(Holding("GPU-1"), Holding("GPU-2")))
    charges = rate(ended, SHEET)
    assert [(each.resource_id, each.charge_period_start - START, each.consumed_seconds) for each in charges] == [
        (resource, start, seconds)
        for resource in ("", "GPU-1", "GPU-2")
        for start, seconds in ((0, 1800), (1800, 3600), (5400, 1800))
    ]
    assert total(charges) == 2 * 100_000 + 2 * 2 * 1_900_000


@pytest.mark.parametrize(
    ("fields", "seconds", "estimated"),
    [
        ({"ended_at": START + 90, "released": True}, 90, False),
        ({"ended_at": None, "seen_at": START + 60, "released": True}, 60, True),
        ({"ended_at": None, "seen_at": None, "released": True}, 0, False),
        ({"ended_at": START + 90, "released": True, "billable": False}, 0, False),
        ({"ended_at": START - 5, "released": True}, 0, False),
        ({"started_at": None, "ended_at": START + 90, "released": True}, 0, False),
        ({"seen_at": START + 60}, 60, False),
    ],
    ids=["seen end", "nobody saw the end", "never seen", "failed start", "ends before it starts", "never ran", "runs"],
)
def test_what_is_charged_follows_from_container_facts(fields, seconds, estimated):
    charges = rate(facts(**fields), SHEET)
    assert sum(each.consumed_seconds for each in charges) == seconds
    assert any(each.estimated for each in charges) is estimated


def test_the_gpu_part_ends_with_the_device_and_the_host_goes_on():
    charges = rate(facts(ended_at=START + 600, released=True, holdings=(Holding("GPU-1", START + 200),)), SHEET)
    assert {each.resource_id: each.consumed_seconds for each in charges} == {"": 600, "GPU-1": 200}


def test_a_running_session_has_due_only_what_is_past_the_hour_and_was_seen():
    running = facts(seen_at=START + 2 * HOUR)
    assert [each.charge_period_end - START for each in due(rate(running, SHEET), running)] == [1800, 5400]
    assert sum(each.consumed_seconds for each in rate(running, SHEET, START + 3 * HOUR)) == 3 * HOUR


@given(
    length=st.integers(0, 400_000),
    micro=st.integers(0, 10_000_000),
    changes=st.lists(st.tuples(st.integers(-1000, 400_000), st.integers(0, 10_000_000)), max_size=4),
)
def test_the_lines_add_up_to_the_whole_rounded_once(length, micro, changes):
    sheet = PriceSheet([price(HOST, micro), *(price(HOST, each, START + at) for at, each in changes)])
    charges = rate(facts(ended_at=START + length, released=True), sheet)
    exact = Fraction(0)
    for part, each in sheet.parts(HOST, Period(START, START + length)):
        exact += Fraction(each.list_unit_price * part.seconds, HOUR)
    assert total(charges) == round(exact)
    assert sum(each.consumed_seconds for each in charges) == length
    assert all(left.charge_period_end == right.charge_period_start for left, right in pairwise(charges))
    assert all(each.charge_period_start // HOUR == (each.charge_period_end - 1) // HOUR for each in charges)
    assert len({each.charge_key for each in charges}) == len(charges)


@given(
    seen=st.lists(st.integers(0, 30_000), max_size=6),
    end=st.integers(0, 30_000),
    final=st.one_of(st.none(), st.integers(0, 30_000)),
)
def test_whatever_was_posted_before_the_ledger_ends_at_what_is_true(seen, end, final):
    """Posted after each look; then the end comes, late or not, and perhaps once more another one."""
    posted: list[Charge] = []
    for at in seen:
        running = facts(seen_at=START + at)
        posted += settle(due(rate(running, SHEET), running), posted)
    for ended_at in (end, final):
        if ended_at is not None:
            ended = facts(ended_at=START + ended_at, released=True)
            posted += settle(rate(ended, SHEET), posted)
            assert settle(rate(ended, SHEET), posted) == ()
            assert sum(each.consumed_seconds for each in posted) == ended_at
            assert total(posted) == total(rate(ended, SHEET))
    assert len({each.charge_key for each in posted}) == len(posted)


def test_what_was_posted_too_much_is_taken_back_by_a_correction():
    running = facts(seen_at=START + 2 * HOUR)
    posted = due(rate(running, SHEET), running)
    ended = facts(ended_at=START + 2000, released=True)
    (correction,) = settle(rate(ended, SHEET), posted)
    assert (correction.charge_class, correction.consumed_seconds, correction.billed_cost < 0) == (
        CORRECTION,
        -3400,
        True,
    )
    assert correction.charge_key == f"{posted[1].charge_key}#1"


@given(
    length=st.integers(0, 100_000),
    since=st.integers(-2, 30),
    until=st.one_of(st.none(), st.integers(-5000, 100_000)),
    changes=st.lists(st.tuples(st.integers(-1000, 100_000), st.integers(0, 10_000_000)), max_size=4),
)
def test_rating_from_an_hour_on_gives_the_same_lines_as_rating_all(length, since, until, changes):
    sheet = PriceSheet([price(HOST, 333_333), price(GPU, 7), *(price(GPU, each, START + at) for at, each in changes)])
    holdings = (Holding("GPU-1", None if until is None else START + until), Holding("GPU-2"))
    ended = facts(ended_at=START + length, released=True, holdings=holdings)
    hour = (START // HOUR + since) * HOUR
    later = [each for each in rate(ended, sheet) if each.charge_period_start >= hour]
    assert list(rate(ended, sheet, since=hour)) == later


def _earlier(known: int | None, told: int | None) -> int | None:
    """A device's end becomes known, and perhaps known as an earlier one; it is never unknown again."""
    return min((each for each in (known, told) if each is not None), default=None)


LOOKS = st.lists(
    st.tuples(st.integers(0, 40_000), st.one_of(st.none(), st.integers(0, 40_000))), min_size=1, max_size=6
)


@given(looks=LOOKS, end=st.integers(0, 40_000), billable=st.booleans())
def test_looking_only_at_what_may_have_changed_posts_what_looking_at_all_would(looks, end, billable):
    """Each look knows when the session was last seen, and perhaps, late or not, when its device was lost."""
    ends = [facts(ended_at=START + end, released=True, billable=billable)]
    known = [facts(seen_at=START + seen) for seen, _ in looks] + ends
    lost = list(accumulate((at for _, at in looks), _earlier))
    posted: list[Charge] = []
    posted_until = None
    for each, until in zip(known, [*lost, lost[-1]], strict=True):
        holding = Holding("GPU-1", None if until is None else START + until)
        now = replace(each, holdings=(holding,), posted_until=posted_until)
        read = [line for line in posted if line.charge_period_start >= now.unsure_from]
        posted += settle(due(rate(now, SHEET, since=now.unsure_from), now), read)
        posted_until = now.past_hours_end
        assert settle(due(rate(now, SHEET), now), posted) == ()
    assert total(posted) == total(rate(now, SHEET))


def test_lines_added_by_hand_stay_as_they_are_also_by_somebody_of_the_meters_name():
    ended = facts(ended_at=START + 60, released=True)
    posted = rate(ended, SHEET)
    for author in ("admin", "meter"):
        credit = build_credit(
            key="1", username="ann", amount=5, currency="USD", at=START, author=author, reason="", session_id="s"
        )
        assert settle(rate(ended, SHEET), [*posted, credit]) == ()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": FlavorKind.CPU}, {"f:host:on-demand": ("Server-Hours", 3_700_001)}),
        (
            {"kind": FlavorKind.GPU, "gpus": 2},
            {"f:host:on-demand": ("Server-Hours", 0), "f:gpu:on-demand": ("GPU-Hours", 1_850_000)},
        ),
        (
            {"kind": FlavorKind.MIG, "gpus": 1, "host_price_per_hour": 700_001},
            {"f:host:on-demand": ("Server-Hours", 700_001), "f:gpu:on-demand": ("MIG-Hours", 3_000_000)},
        ),
    ],
    ids=["cpu", "two GPUs share the price", "host apart"],
)
def test_the_prices_of_a_flavor(fields, expected):
    flavor = Flavor(
        slug="f",
        display_name="F",
        cpus=1,
        memory=1,
        shm=1,
        pids=1,
        images=("base",),
        price_per_hour=3_700_001,
        **fields,
    )
    prices = build_prices(flavor, "USD", 7)
    assert {each.sku_id: (each.unit, each.list_unit_price) for each in prices} == expected


def test_a_price_holds_from_its_instant_and_the_later_of_two_rows_holds():
    sheet = PriceSheet([price(GPU, 1), price(GPU, 5, 100), price(GPU, 7, 100)])
    assert [sheet.at(GPU, at).list_unit_price for at in (0, 99, 100)] == [1, 1, 7]
    assert sheet.at("unknown", 0) is None
