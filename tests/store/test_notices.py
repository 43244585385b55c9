"""What everybody is told, and maintenance: on both databases, each change with its row in the audit log."""

from datetime import timedelta

import pytest

from nbgpu.core.authorize import Cause, Policies
from nbgpu.core.errors import InvalidOptions, UnderMaintenance, UnknownNotice
from nbgpu.core.leases import ServerRef
from nbgpu.store import SqlAuditLog, SqlLeaseStore
from nbgpu.store.broadcasts import SqlBroadcasts
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.maintenance import SqlMaintenance
from store.conftest import Clock

HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def acquire(engine, clock, devices, choose):
    """Return a function that leases a GPU to somebody."""
    return lambda user: SqlLeaseStore(engine, clock).acquire(ServerRef(user), choose(), "sha256:1", devices)


@pytest.fixture
def limits(engine, clock) -> SqlLimits:
    return SqlLimits(engine, Policies(), clock)


@pytest.fixture
def broadcasts(engine, clock) -> SqlBroadcasts:
    return SqlBroadcasts(engine, clock)


@pytest.fixture
def maintenance(engine, clock) -> SqlMaintenance:
    return SqlMaintenance(engine, clock)


def audited(engine) -> list[tuple[str, str, str]]:
    return [(each.actor, each.action, each.detail) for each in reversed(SqlAuditLog(engine).latest())]


def test_a_message_is_shown_until_its_time_is_over(broadcasts, clock, engine):
    sent = broadcasts.send("The\nnew  image is\x1b there.", HOUR, by="root")
    assert sent.text == "The new image is there."
    broadcasts.send("Second", 3 * HOUR, by="root")
    assert [each.text for each in broadcasts.current()] == ["The new image is there.", "Second"]
    clock.now += 2 * HOUR
    assert [each.text for each in broadcasts.current()] == ["Second"]
    assert [each.text for each in broadcasts.latest()] == ["Second", "The new image is there."]
    assert [each[:2] for each in audited(engine)] == [("root", "broadcast.send")] * 2


def test_a_message_is_withdrawn_once(broadcasts, engine):
    sent = broadcasts.send("Wrong", HOUR, by="root")
    broadcasts.withdraw(sent.number, by="eve")
    assert broadcasts.current() == ()
    for number in (sent.number, 999):
        with pytest.raises(UnknownNotice, match="not shown any more"):
            broadcasts.withdraw(number, by="eve")
    assert audited(engine)[-1] == ("eve", "broadcast.withdraw", "Wrong")


@pytest.mark.parametrize(
    ("text", "span", "message"),
    [
        (" \n\x00", HOUR, "Write what"),
        ("x" * 501, HOUR, "has 501 characters; 500 are shown"),
        ("x", timedelta(seconds=59), "a minute at least"),
        ("x", timedelta(days=32), "31 days at most"),
        ("x", -HOUR, "a minute at least"),
    ],
)
def test_a_message_that_makes_no_sense_is_not_sent(broadcasts, engine, text, span, message):
    with pytest.raises(InvalidOptions, match=message):
        broadcasts.send(text, span, by="root")
    assert (broadcasts.latest(), audited(engine)) == ((), [])


def test_in_maintenance_nothing_is_started_and_afterwards_it_is(engine, clock, maintenance, acquire):
    maintenance.begin("new <driver>", None, by="root")
    with pytest.raises(UnderMaintenance, match=r"maintenance \(new <driver>\)"):
        acquire("ann")
    assert maintenance.current().stop is None
    assert maintenance.end(by="root")
    assert not maintenance.end(by="root")
    assert acquire("ann").server == ServerRef("ann")
    assert audited(engine) == [
        ("root", "maintenance.begin", "new <driver>; what runs goes on"),
        ("root", "maintenance.end", "new <driver>"),
    ]


def test_maintenance_that_has_begun_is_changed(clock, maintenance):
    first = maintenance.begin("driver", None, by="root")
    stop_at = clock.now + HOUR
    second = maintenance.begin("driver and disk", stop_at, by="eve")
    assert (second.since, second.stop_at, second.author) == (first.since, stop_at, "eve")
    assert maintenance.current() == second
    clock.now = stop_at - timedelta(minutes=1)
    assert maintenance.begin("disk", stop_at, by="eve").stop_at == stop_at  # they were told in time


@pytest.mark.parametrize("ahead", [timedelta(minutes=4), -HOUR, timedelta(days=32)])
def test_people_have_time_before_they_are_stopped(clock, maintenance, ahead):
    with pytest.raises(InvalidOptions, match="5 minutes at least"):
        maintenance.begin("driver", clock.now + ahead, by="root")
    with pytest.raises(InvalidOptions, match="Say why"):
        maintenance.begin(" ", None, by="root")
    assert maintenance.current() is None


def test_what_runs_is_stopped_at_the_stated_time_unless_it_ends_before(clock, engine, maintenance, acquire, limits):
    leases = SqlLeaseStore(engine, clock)
    lease = acquire("ann")
    leases.activate(lease.session_id, clock.now)
    assert limits.keep().stops == ()
    stop_at = (clock.now + 2 * HOUR).replace(microsecond=0)
    maintenance.begin("driver", stop_at, by="root")
    (planned,) = limits.keep().stops
    now = int(clock.now.timestamp())
    assert (planned.server, planned.stop.at, planned.stop.cause) == (
        ServerRef("ann"),
        int(stop_at.timestamp()),
        Cause.MAINTENANCE,
    )
    assert [planned.told_times(now + ahead) for ahead in (0, 3700, 7000)] == [1, 2, 3]
    assert leases.find(lease.session_id).stop_cause is Cause.MAINTENANCE
    maintenance.end(by="root")
    kept = limits.keep()
    assert (kept.stops, kept.called_off) == ((), (lease.session_id,))
