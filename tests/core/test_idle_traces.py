"""Labelled traces: no working server is ever stopped, and each idle one is in time."""

import pytest

from support.idle_traces import (
    FLAVORS,
    IDLE,
    LIMIT,
    POLICY,
    STEP,
    WORKING,
    Trace,
    make_trace,
    stop_by_ours,
    stop_by_stock,
)

CLAIMED = {"sleeping loop", "abandoned terminal with top"}  # a cell or a program says that it is at work
NOTICED = 120  # seconds from the end of work until readings say so, at the most


@pytest.mark.case(18)
@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("name", WORKING)
def test_a_working_server_is_never_stopped(name, flavor):
    _, lengths = WORKING[name]
    assert stop_by_ours(make_trace(name, flavor, lengths[0])) is None


@pytest.mark.case(19)
@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("name", IDLE)
def test_an_idle_server_is_stopped_in_time_and_not_before(name, flavor):
    _, lengths = IDLE[name]
    trace = make_trace(name, flavor, lengths[0])
    stopped = stop_by_ours(trace)
    assert stopped is not None
    limit = POLICY.busy_limit if name in CLAIMED else LIMIT
    grace = trace.worked * POLICY.grace_percent // 100
    since = last_sign(trace, stopped)
    latest = len(trace.moments) * STEP if name.startswith("lost samples") else since + limit + grace + NOTICED
    assert since + limit <= stopped <= latest


def last_sign(trace: Trace, until: int) -> int:
    """Return when something moved last: the end of work, or a moment of CPU long after it, as idle servers have."""
    moments = enumerate(trace.moments[: until // STEP], start=1)
    return max((at * STEP for at, moment in moments if moment.cpu >= POLICY.thresholds.cpu_percent), default=0)


def test_the_stock_rule_stops_workers_and_misses_forgotten_tabs():
    """That the traces tell rules apart."""
    assert stop_by_stock(make_trace("long cell, closed browser", "gpu", 3)) is not None
    assert stop_by_stock(make_trace("forgotten tab", "gpu", 4)) is None
    assert stop_by_stock(make_trace("held memory", "gpu", 4)) is not None
