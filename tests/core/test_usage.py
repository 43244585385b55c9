"""Usage: parts sum to the whole, and "not reported" is never 0."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbgpu.core.usage import (
    HOUR,
    MINUTE,
    Holding,
    Metered,
    Usage,
    elapsed_of,
    floor,
    measure_device,
    measure_server,
    split,
)

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
amounts = st.none() | st.integers(0, 10**15)
usages = st.builds(
    Usage,
    sampled_ms=st.integers(1, 200_000),
    busy_ms=amounts,
    gpu_memory_peak=amounts,
    gpu_memory_byte_ms=amounts,
    cpu_ms=amounts,
    ram_byte_ms=amounts,
    network_bytes=amounts,
)
instants = st.integers(0, 10**12).map(lambda ms: NOON + timedelta(milliseconds=ms))


def total(parts: list[Usage]) -> Usage:
    first, *rest = parts
    return sum(rest, first)


@given(usages, instants)
def test_what_is_split_at_minutes_sums_to_the_whole(usage, until):
    parts = list(split(usage, until))
    assert total([part for _, part in parts]) == usage
    minutes = [minute for minute, _ in parts]
    assert minutes == sorted(set(minutes))
    assert all(0 < part.sampled_ms <= 60_000 for _, part in parts)
    assert minutes[0] <= until - timedelta(milliseconds=usage.sampled_ms)
    assert minutes[-1] < until


@given(usages, usages, usages)
def test_the_order_of_adding_does_not_matter(one, two, three):
    assert (one + two) + three == one + (two + three) == three + two + one


def test_a_sample_over_the_minute_is_in_both():
    whole = measure_device(2000, utilization=50, memory_used=2**30)
    (before, first), (after, second) = split(whole, NOON + timedelta(seconds=0.5))
    assert (before, first.sampled_ms, first.busy_ms) == (NOON - MINUTE, 1500, 750)
    assert (after, second.sampled_ms, second.busy_ms) == (NOON, 500, 250)
    assert first.gpu_memory_peak == second.gpu_memory_peak == 2**30


@pytest.mark.case(22)
@pytest.mark.case(23)
def test_what_a_device_does_not_report_is_not_zero():
    reported = measure_device(2000, utilization=0, memory_used=0)
    silent = measure_device(2000, utilization=None, memory_used=None)
    assert (reported.busy_ms, reported.gpu_memory_byte_ms) == (0, 0)
    assert (silent.busy_ms, silent.gpu_memory_byte_ms, silent.gpu_memory_mean) == (None, None, None)
    assert (reported + silent).busy_ms == 0
    assert (silent + silent).busy_ms is None
    assert measure_server(2000, cpu_ms=None, ram=None) == Usage(sampled_ms=2000)


@pytest.mark.parametrize(("percent", "busy"), [(0, 0), (37, 740), (100, 2000), (101, 2000)])
def test_busy_is_utilization_times_time(percent, busy):
    assert measure_device(2000, utilization=percent, memory_used=None).busy_ms == busy


def test_the_mean_memory_is_over_the_sampled_time():
    usage = measure_device(1000, utilization=None, memory_used=100) + measure_device(
        3000, utilization=None, memory_used=200
    )
    assert (usage.gpu_memory_mean, usage.gpu_memory_peak) == (175, 200)


@pytest.mark.parametrize(
    ("why", "active_s_ago", "known", "counted_ms"),
    [
        ("it was there before", 100, True, 2000),
        ("it began long ago and was not seen before", 100, False, 2000),
        ("it began meanwhile", 0.5, False, 500),
        ("its clock is ahead", -10, False, 0),
        ("the clock was set back while it ran", -3600, True, 2000),
    ],
)
def test_a_session_is_not_given_time_before_it_began(why, active_s_ago, known, counted_ms):
    holding = Holding(Metered("s"), NOON - timedelta(seconds=active_s_ago))
    assert elapsed_of(holding, NOON, 2000, known=known) == counted_ms, why


def test_floor_is_of_utc():
    assert floor(NOON + timedelta(minutes=59, seconds=59), HOUR) == NOON
    assert floor(NOON + timedelta(seconds=61), MINUTE) == NOON + MINUTE
