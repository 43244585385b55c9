"""Statements: the parts of what is divided add up, in every zone, over every change of the clock."""

import zoneinfo
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbgpu.core.errors import InvalidOptions
from nbgpu.core.ledger import ChargeCategory
from nbgpu.core.periods import HOUR, Period, to_seconds
from nbgpu.core.statement import Amounts, Dimension, Part, ask, merge, midnight, split_charge, totals
from store.charges import charge

DAYS = 400
ZONES = sorted(zoneinfo.available_timezones())
# Zones of 30 and 45 minutes, of half-hour summer time, of a clock that changes at midnight, and that left out a day.
ODD = [
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Australia/Eucla",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "America/Sao_Paulo",
    "America/Havana",
    "Africa/Cairo",
    "Asia/Beirut",
    "Pacific/Chatham",
    "Pacific/Apia",
    "Antarctica/Troll",
    "Africa/Monrovia",
]
zones = st.one_of(st.sampled_from(ODD), st.sampled_from(ZONES)).map(ZoneInfo)
first_days = st.dates(date(1971, 1, 1), date(2036, 1, 1))
amounts = st.builds(
    Amounts,
    server_seconds=st.integers(-3600, 3600),
    gpu_seconds=st.integers(-3600, 3600),
    busy_ms=st.none() | st.integers(0, 3_600_000),
    cost=st.integers(-(10**9), 10**9),
    accrued=st.integers(0, 10**9),
)


def add_up(parts) -> Amounts:
    return sum(parts, Amounts())


@given(zone=zones, first=first_days)
def test_the_days_of_any_zone_follow_each_other_and_are_the_whole(zone, first):
    last = first + timedelta(days=DAYS - 1)
    by_day = ask([Dimension.DAY], first, last, zone)
    whole = ask([Dimension.USER], first, last, zone)
    assert by_day.period == whole.period == ask([Dimension.MONTH], first, last, zone).period
    assert all(one.period.end == other.period.start for one, other in pairwise(by_day.buckets))
    assert sum(each.period.seconds for each in by_day.buckets) == whole.period.seconds
    assert all(19 * HOUR <= each.period.seconds <= 29 * HOUR for each in by_day.buckets)
    assert len(by_day.buckets) in (DAYS, DAYS - 1), "a zone that crosses the date line leaves out a day"


@given(zone=zones, first=first_days, instant=st.integers(0, DAYS * 86400 - 1))
def test_each_second_is_of_the_day_that_the_zones_clock_shows(zone, first, instant):
    question = ask([Dimension.DAY], first, first + timedelta(days=DAYS - 1), zone)
    at = question.period.start + instant
    number = question.find_bucket(at)
    if number is None:
        assert at >= question.period.end
        return
    shown = datetime.fromtimestamp(at, zone).date()
    bucket = question.buckets[number]
    # Where the clock is set back at midnight, the hour before comes twice: its second pass is of the old day again.
    assert bucket.first_day == shown or bucket.first_day - shown == timedelta(days=1)
    assert bucket.period.start <= at < bucket.period.end


@given(
    zone=zones, first=first_days, offset=st.integers(-2 * HOUR, DAYS * 86400), seconds=st.integers(1, HOUR), of=amounts
)
def test_what_is_divided_at_midnights_adds_up(zone, first, offset, seconds, of):
    last = first + timedelta(days=DAYS - 1)
    start = midnight(first, zone) + offset
    period = Period(start, start + seconds)
    days, whole = ask([Dimension.DAY], first, last, zone), ask([], first, last, zone)
    assert add_up(part for _, part in days.cut(of, period)) == add_up(part for _, part in whole.cut(of, period))
    inside = period.clip(days.period)
    if inside == period:
        assert add_up(part for _, part in days.cut(of, period)) == of
    for number, part in days.cut(Amounts(server_seconds=seconds), period):
        assert part.server_seconds == period.clip(days.buckets[number].period).seconds


@given(of=amounts, whole=st.integers(1, HOUR), cuts=st.lists(st.integers(0, HOUR)))
def test_parts_of_any_division_add_up_and_neighbouring_statements_share_nothing(of, whole, cuts):
    ends = sorted({0, whole, *(cut for cut in cuts if cut < whole)})
    assert add_up(of.part(begin, end, whole) for begin, end in pairwise(ends)) == of
    reversal = Amounts(cost=-of.cost)
    for begin, end in pairwise(ends):
        assert of.part(begin, end, whole).cost == -reversal.part(begin, end, whole).cost


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("America/New_York", date(2026, 3, 8), 23),
        ("Australia/Lord_Howe", date(2026, 4, 5), 24.5),
        ("Australia/Lord_Howe", date(2026, 10, 4), 23.5),
        ("Asia/Kathmandu", date(2026, 3, 29), 24),
        ("America/Havana", date(2026, 3, 8), 23),
        ("Pacific/Apia", date(2011, 12, 29), 24),
    ],
)
def test_days_are_as_long_as_the_zones_clock_makes_them(zone, day, hours):
    (bucket,) = ask([Dimension.DAY], day, day, ZoneInfo(zone)).buckets
    assert bucket.period.seconds == hours * HOUR


def test_a_day_that_a_zone_left_out_is_in_no_statement():
    days = ask([Dimension.DAY], date(2011, 12, 29), date(2011, 12, 31), ZoneInfo("Pacific/Apia")).buckets
    assert [each.first_day.day for each in days] == [29, 31]
    with pytest.raises(ValueError, match="no day from 2011-12-30 to 2011-12-30 in Pacific/Apia"):
        ask([Dimension.DAY], date(2011, 12, 30), date(2011, 12, 30), ZoneInfo("Pacific/Apia"))


def test_months_are_cut_to_the_days_that_are_asked_for():
    question = ask([Dimension.MONTH, Dimension.USER], date(2026, 1, 31), date(2026, 3, 2), UTC)
    assert [each.first_day for each in question.buckets] == [date(2026, 1, 31), date(2026, 2, 1), date(2026, 3, 1)]
    assert [each.period.seconds // 86400 for each in question.buckets] == [1, 28, 2]
    assert question.key(("ann",), 1) == ("2026-02", "ann")


def test_a_line_that_straddles_midnight_is_divided_by_seconds():
    zone = ZoneInfo("Asia/Kathmandu")  # 5:45 h ahead: midnight is at 18:15 of UTC
    start = to_seconds(datetime(2026, 3, 29, 18, tzinfo=UTC))
    question = ask([Dimension.DAY], date(2026, 3, 29), date(2026, 3, 30), zone)
    parts = dict(split_charge(question, charge(start, HOUR, billed_cost=1_000_001)))
    assert [(parts[day].gpu_seconds, parts[day].cost) for day in (0, 1)] == [(900, 250_000), (2700, 750_001)]


@pytest.mark.parametrize("category", [ChargeCategory.CREDIT, ChargeCategory.ADJUSTMENT])
def test_credits_are_of_the_day_they_begin_in(category):
    question = ask([Dimension.DAY], date(2026, 3, 1), date(2026, 3, 31), timezone(timedelta(hours=5, minutes=45)))
    start = question.buckets[4].period.start + 10
    given_ = charge(start, 20 * 86400, charge_category=category.value, billed_cost=-5, consumed_seconds=0)
    assert [(number, each.cost) for number, each in split_charge(question, given_)] == [(4, -5)]
    before = charge(question.period.start - 1, 86400, charge_category=category.value)
    assert list(split_charge(question, before)) == []


def test_what_is_not_posted_yet_is_in_the_cost_and_marked():
    question = ask([], date(1970, 1, 1), date(1970, 1, 2), UTC)
    ((_, found),) = split_charge(question, charge(0, 100, resource_id="", estimated=True), accrued=True)
    assert found == Amounts(server_seconds=100, cost=27_700, accrued=27_700, estimated=True)


def test_usage_without_money_goes_to_the_line_of_its_key():
    lines = merge(
        [
            Part(("bob",), "", Amounts(busy_ms=5)),
            Part(("ann",), "USD", Amounts(cost=1)),
            Part(("ann",), "EUR", Amounts(cost=2)),
            Part(("ann",), "", Amounts(busy_ms=7)),
            Part(("ann",), "USD", Amounts(cost=10)),
        ]
    )
    assert lines == (
        Part(("ann",), "EUR", Amounts(cost=2, busy_ms=7)),
        Part(("ann",), "USD", Amounts(cost=11)),
        Part(("bob",), "", Amounts(busy_ms=5)),
    )
    assert {currency: each.cost for currency, each in totals(lines).items()} == {"EUR": 2, "USD": 11}


def test_not_reported_is_never_zero():
    assert (Amounts() + Amounts()).busy_ms is None
    assert (Amounts(busy_ms=0) + Amounts()).busy_ms == 0
    assert Amounts(gpu_seconds=10).part(0, 5, 10).busy_ms is None


@pytest.mark.parametrize(
    ("dimensions", "first", "last", "message"),
    [
        ([Dimension.DAY], date(1970, 1, 1), date(9998, 12, 31), "is 2932532 days; a statement has at most 400"),
        ([Dimension.USER, Dimension.DAY], date(2026, 1, 1), date(2027, 2, 5), "by day is 401 days; .* or not by day"),
        ([Dimension.DAY, Dimension.MONTH], date(2026, 1, 1), date(2027, 2, 5), "by day is 401 days"),
        (
            [Dimension.MONTH],
            date(1970, 1, 31),
            date(2070, 1, 1),
            "by month is 1201 months; a statement has at most 1200",
        ),
    ],
)
def test_more_than_a_statement_may_have_is_refused_before_it_is_built(dimensions, first, last, message):
    with pytest.raises(InvalidOptions, match=message):
        ask(dimensions, first, last, UTC)


@pytest.mark.parametrize(
    ("dimensions", "first", "last", "count"),
    [
        ([Dimension.DAY], date(2026, 1, 1), date(2027, 2, 4), 400),
        ([Dimension.MONTH], date(1970, 1, 31), date(2069, 12, 31), 1200),
        ([Dimension.USER], date(1970, 1, 1), date(9998, 12, 31), 1),
    ],
)
def test_as_much_as_a_statement_may_have_is_given(dimensions, first, last, count):
    assert len(ask(dimensions, first, last, UTC).buckets) == count
