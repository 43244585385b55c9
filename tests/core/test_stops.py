"""Stops: on the time limit, after a grace where money or hours ran out, and not at all where there is more again."""

from datetime import UTC

import pytest

from nbgpu.core.authorize import LEAST, Cause
from nbgpu.core.stops import WARN, Stop, describe_stop, plan_stop

NOW, GRACE = 1_000_000, 120
BUDGET, LIMIT = Cause.BUDGET, Cause.TIME_LIMIT
DECIDED = Stop(NOW + 50, BUDGET)


@pytest.mark.parametrize(
    ("deadline", "cause", "decided", "expected"),
    [
        (None, None, None, None),
        (None, None, DECIDED, None),
        (NOW + WARN + 1, LIMIT, None, None),
        (NOW + WARN, LIMIT, None, Stop(NOW + WARN, LIMIT)),
        (NOW - 5, LIMIT, Stop(NOW - 5, LIMIT), Stop(NOW - 5, LIMIT)),
        (NOW - 5, LIMIT, None, Stop(NOW + WARN, LIMIT)),
        (NOW - 500, LIMIT, Stop(NOW + 100, LIMIT), Stop(NOW + 100, LIMIT)),
        (NOW + 700, LIMIT, Stop(NOW + 100, LIMIT), None),
        (NOW + 50, LIMIT, Stop(NOW + 100, LIMIT), Stop(NOW + 50, LIMIT)),
        (NOW - 900, BUDGET, None, Stop(NOW + GRACE, BUDGET)),
        (NOW + 1, BUDGET, None, None),
        (NOW, BUDGET, None, Stop(NOW + GRACE, BUDGET)),
        (NOW - 20, BUDGET, None, Stop(NOW - 20 + GRACE, BUDGET)),
        (NOW - 90, BUDGET, DECIDED, DECIDED),
        (NOW + LEAST - 1, BUDGET, DECIDED, DECIDED),
        (NOW + LEAST, BUDGET, DECIDED, None),
        (NOW, Cause.QUOTA, DECIDED, Stop(NOW + GRACE, Cause.QUOTA)),
    ],
)
def test_when_a_session_stops(deadline, cause, decided, expected):
    assert plan_stop(deadline=deadline, cause=cause, decided=decided, now=NOW, grace=GRACE) == expected


@pytest.mark.parametrize(("latest", "at"), [(NOW + 30, NOW + 30), (NOW + 300, NOW + GRACE)])
def test_no_grace_goes_beyond_the_time_limit(latest, at):
    found = plan_stop(deadline=NOW, cause=BUDGET, decided=None, now=NOW, grace=GRACE, latest=latest)
    assert found == Stop(at, BUDGET)


def test_what_is_told_says_when_and_why():
    text = str(describe_stop(Stop(NOW, Cause.BUDGET), UTC))
    assert text.startswith("This server will be stopped at 13:46 UTC: the budget that pays for it is used up.")
