"""Idleness in the database: what is watched, whose stop holds, what an extension gives, what is left after the end."""

from datetime import time, timedelta

import pytest

from nbgpu.core.activity import Reading, Report, Thresholds, note_reading, note_report
from nbgpu.core.authorize import Cause
from nbgpu.core.culling import Look, State, judge, plan_idle_stop
from nbgpu.core.errors import NotExtended
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.idle_policy import IdleRule, IdleSite, QuietHours
from nbgpu.core.leases import ServerRef
from nbgpu.core.periods import Period, to_seconds
from nbgpu.core.quotas import Scope, Who
from nbgpu.core.stops import Move
from nbgpu.store.audit import SqlAuditLog
from nbgpu.store.idle import SqlIdle
from nbgpu.store.idle_rows import IdleEntry
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.limits import Policies
from store.test_limits import EVERYONE, HOUR, NOW, clock, open_store, start

__all__ = ["clock", "open_store", "start"]  # fixtures

MINUTE = timedelta(minutes=1)
RULES = {"idle_limit": 1800, "extend": 3600, "longest_extension": 7200}


@pytest.fixture
def open_idle(engine, clock):
    """Return what opens the idleness of a site whose rule for everyone has these keys."""

    def open_idle(**changes):
        site = IdleSite(rules=(IdleRule(who=EVERYONE, changes=RULES | changes),))
        return SqlIdle(engine, site, clock), SqlLimits(engine, Policies(), clock, idle=site)

    return open_idle


def watch(idle: SqlIdle, clock, until: timedelta, *, report=Report(), gpu_percent=0.0) -> None:  # noqa: B008
    """Look each minute until so long after the begin, at a server in which little happens."""
    while clock.now < NOW + until:
        clock.now += MINUTE
        now, entries = to_seconds(clock.now), []
        for each in idle.watched():
            reading = Reading(
                span=Period(now - 60, now), cpu_percent=1, network_rate=10, gpu_percent=gpu_percent, gpu_memory=0
            )
            tracks = note_report(note_reading(each.tracks, reading, Thresholds(), 120), report, now, 120)
            look = Look(now=now, stale=120, has_gpu=each.has_gpu, zone=idle._site.zone, extension=each.extension)
            verdict = judge(tracks, each.policy, look)
            stop = plan_idle_stop(verdict, each.policy, each.decided, now=now, zone=idle._site.zone)
            entries.append(IdleEntry(session_id=each.session_id, tracks=tracks, verdict=verdict, stop=stop))
        idle.write(entries, now)


def test_an_idle_server_is_warned_of_then_due_and_its_end_is_explained(open_store, start, clock, open_idle):
    store, (idle, limits) = open_store(), open_idle()
    lease = start(store)
    watch(idle, clock, 10 * MINUTE)
    assert limits.keep().stops == ()
    watch(idle, clock, 16 * MINUTE)
    (planned,) = limits.keep().stops
    assert (planned.stop.cause, planned.warn) == (Cause.IDLE, (900, 300))
    assert planned.stop.at == pytest.approx(to_seconds(NOW + 30 * MINUTE), abs=60)
    assert idle.due() == ()
    found = store.find_open(lease.session_id)
    assert (found.stop_cause, to_seconds(found.stop_at)) == (Cause.IDLE, planned.stop.at)
    watch(idle, clock, 32 * MINUTE)
    assert [each.session_id for each in idle.due()] == [lease.session_id]
    store.release(lease.session_id, "stopped", clock.now)
    assert idle.due() == idle.watched() == ()
    view = idle.newest(ServerRef("ann"))
    assert view.ended_at is not None
    assert (view.verdict.state, view.verdict.forecast.limit) == (State.QUIET, 1800)
    assert view.verdict.forecast.since == pytest.approx(to_seconds(NOW), abs=60)


def test_work_calls_a_stop_off(open_store, start, clock, open_idle):
    store, (idle, limits) = open_store(), open_idle()
    lease = start(store)
    watch(idle, clock, 20 * MINUTE)
    assert limits.keep().stops
    watch(idle, clock, 21 * MINUTE, report=Report(person_ago=1))
    assert limits.keep().called_off == (lease.session_id,)
    assert store.find_open(lease.session_id).stop_at is None


def test_a_watch_that_has_ended_stops_nobody(open_store, start, clock, open_idle):
    """The service was killed after it had decided a stop: whether work went on since, nobody knows."""
    store, (idle, limits) = open_store(), open_idle()
    lease = start(store)
    watch(idle, clock, 29 * MINUTE)
    assert limits.keep().stops
    clock.now += 10 * MINUTE
    assert idle.due() == ()
    assert limits.keep().called_off == (lease.session_id,)
    assert idle.find(lease.session_id).verdict.state is State.UNKNOWN


def test_the_stop_that_comes_first_holds(open_store, start, clock, open_idle):
    store, (idle, limits) = open_store(), open_idle()
    start(store, time_limit=25 * MINUTE)
    start(store, "long", time_limit=10 * HOUR)
    watch(idle, clock, 20 * MINUTE)
    causes = {each.server.servername: each.stop.cause for each in limits.keep().stops}
    assert causes == {"": Cause.TIME_LIMIT, "long": Cause.IDLE}
    assert {each.server.servername: each.stop.cause for each in idle.running()} == causes


def test_a_server_without_a_rule_is_not_watched(engine, clock, open_store, start):
    start(open_store())
    idle = SqlIdle(engine, IdleSite(), clock)
    assert idle.watched() == ()
    (view,) = idle.running("ann")
    assert (view.policy, view.verdict, view.stop) == (None, None, None)
    with pytest.raises(NotExtended, match="Nothing stops this server for being idle"):
        idle.extend(view.session_id, 0, by="ann", as_admin=False)


def test_an_extension_puts_the_stop_off_up_to_the_ceiling(engine, open_store, start, clock, open_idle):
    store, (idle, limits) = open_store(), open_idle()
    lease = start(store)
    watch(idle, clock, 20 * MINUTE)
    stop = idle.find(lease.session_id).stop
    view = idle.extend(lease.session_id, 0, by="ann", as_admin=False)
    assert view.stop is None
    assert view.verdict.forecast.at == view.extension.until == stop.at + 3600
    assert limits.keep().stops == ()
    idle.extend(lease.session_id, 0, by="ann", as_admin=False)
    with pytest.raises(NotExtended, match="It can be extended by 0 s more, not by 1 h"):
        idle.extend(lease.session_id, 0, by="ann", as_admin=False)
    more = idle.extend(lease.session_id, 86400, by="root", as_admin=True)
    assert more.extension.until == stop.at + 7200 + 86400
    watch(idle, clock, 3 * HOUR)
    assert limits.keep().stops == ()
    assert [(each.actor, each.action) for each in SqlAuditLog(engine).latest()] == [
        ("root", "idle.extend"),
        ("ann", "idle.extend"),
        ("ann", "idle.extend"),
    ]


def test_what_is_asked_for_beyond_the_ceiling_is_refused_whole(open_store, start, clock, open_idle):
    store, (idle, _) = open_store(), open_idle()
    lease = start(store)
    watch(idle, clock, 20 * MINUTE)
    with pytest.raises(NotExtended, match="It can be extended by 2 h more, not by 3 h"):
        idle.extend(lease.session_id, 3 * 3600, by="ann", as_admin=False)
    assert idle.find(lease.session_id).extension.until == 0


def test_an_extension_during_a_look_has_the_last_word(open_store, start, clock, open_idle):
    store, (idle, limits) = open_store(), open_idle()
    lease = start(store)
    watch(idle, clock, 29 * MINUTE)
    (looked,) = idle.watched()  # a look begins
    idle.extend(lease.session_id, 0, by="ann", as_admin=False)
    now = to_seconds(clock.now)
    look = Look(now=now, stale=120, has_gpu=True, zone=idle._site.zone, extension=looked.extension)
    verdict = judge(looked.tracks, looked.policy, look)
    stop = plan_idle_stop(verdict, looked.policy, looked.decided, now=now, zone=idle._site.zone)
    assert stop is not None
    idle.write([IdleEntry(session_id=lease.session_id, tracks=looked.tracks, verdict=verdict, stop=stop)], now)
    assert idle.find(lease.session_id).stop is None
    assert limits.keep().stops == ()


@pytest.mark.parametrize("state", ["ended", "unknown"])
def test_what_does_not_run_is_not_extended(open_store, start, clock, open_idle, state):
    store, (idle, _) = open_store(), open_idle()
    lease = start(store)
    store.release(lease.session_id, "stopped", clock.now)
    session_id = lease.session_id if state == "ended" else "nobody"
    with pytest.raises(NotExtended, match="does not run any more"):
        idle.extend(session_id, 0, by="ann", as_admin=False)


def test_another_cause_is_not_extended(open_store, start, clock, open_idle):
    store, (idle, limits) = open_store(), open_idle(idle_limit=36000)
    lease = start(store, time_limit=25 * MINUTE)
    watch(idle, clock, 20 * MINUTE)
    limits.keep()
    with pytest.raises(NotExtended, match="because its time limit is reached; that can't be extended"):
        idle.extend(lease.session_id, 0, by="ann", as_admin=False)


def test_a_time_limit_is_extended_by_administrators(open_store, start, clock, open_idle):
    store, (idle, limits) = open_store(), open_idle(idle_limit=36000)
    lease, other = start(store, time_limit=25 * MINUTE), start(store, "free")
    clock.now = NOW + 20 * MINUTE
    assert limits.keep().stops
    assert idle.extend_time_limit(lease.session_id, 3600, by="root").time_limit == 25 * 60 + 3600
    assert limits.keep().called_off == (lease.session_id,)
    assert store.find_open(lease.session_id).authorized == 25 * MINUTE + HOUR
    with pytest.raises(NotExtended, match="no time limit"):
        idle.extend_time_limit(other.session_id, 3600, by="root")


def test_an_idle_gpu_moves_its_server_where_the_policy_says_so(open_store, start, clock, open_idle):
    store, (idle, limits) = open_store(), open_idle(idle_limit=None, gpu_idle_limit=1800, move_to="cpu")
    start(store)
    watch(idle, clock, 31 * MINUTE, report=Report(person_ago=1))
    (planned,) = limits.keep().stops
    assert (planned.stop.cause, planned.move) == (Cause.GPU_IDLE, Move("cpu", planned.move.image))
    assert idle.due() == (), "the culler only stops"


def test_users_see_their_own(open_store, start, clock, open_idle):
    store, (idle, _) = open_store(), open_idle()
    start(store), start(store, user="bob"), start(store, "two")
    assert [str(each.server) for each in idle.running("ann")] == ["ann", "ann/two"]
    assert len(idle.running(None)) == 3


def test_a_group_s_rule_follows_the_groups_at_the_start(engine, clock, open_store, start):
    site = IdleSite(
        rules=(
            IdleRule(who=EVERYONE, gpu=True, changes={"idle_limit": 1800}),
            IdleRule(who=Who(Scope.GROUP, "ml"), changes={"idle_limit": 7200}),
        )
    )
    idle, store = SqlIdle(engine, site, clock), open_store()
    start(store, groups=("ml",)), start(store, "cpu", kind=FlavorKind.CPU, gpus=0), start(store, user="bob")
    assert {str(each.server): each.policy.idle_limit for each in idle.watched()} == {"ann": 7200, "bob": 1800}


def test_work_that_begins_just_before_the_stop_is_waited_for(open_store, start, clock, open_idle):
    """A stop is done only when all that was told up to it has been judged."""
    store, (idle, limits) = open_store(), open_idle()
    start(store)
    watch(idle, clock, 30 * MINUTE)
    clock.now += timedelta(seconds=59)
    assert idle.due() == ()
    watch(idle, clock, 31 * MINUTE, gpu_percent=99)
    assert idle.due() == ()
    assert limits.keep().stops == ()


def test_a_rule_that_was_removed_stops_nobody_any_more(engine, open_store, start, clock, open_idle):
    store, (idle, limits) = open_store(), open_idle()
    lease = start(store)
    watch(idle, clock, 32 * MINUTE)
    assert limits.is_idle_still(lease.session_id)
    without = IdleSite()
    assert SqlIdle(engine, without, clock).due() == ()
    relieved = SqlLimits(engine, Policies(), clock, idle=without)
    assert not relieved.is_idle_still(lease.session_id)
    assert relieved.keep().stops == ()


def test_a_stop_that_is_due_waits_for_the_end_of_quiet_hours(engine, open_store, start, clock, open_idle):
    store, (idle, _) = open_store(), open_idle()
    start(store)
    watch(idle, clock, 32 * MINUTE)
    assert idle.due()
    begin, end = time(clock.now.hour, clock.now.minute), time(clock.now.hour + 1)
    hours = QuietHours(frozenset(range(7)), begin, end)
    rule = IdleRule(who=EVERYONE, changes=RULES | {"quiet_hours": (hours,)})
    assert SqlIdle(engine, IdleSite(rules=(rule,)), clock).due() == ()


def test_a_move_is_finished_after_a_crash_unless_its_person_was_faster(open_store, start, clock, open_idle):
    store, (idle, limits) = open_store(), open_idle(idle_limit=None, gpu_idle_limit=1800, move_to="cpu")
    lease = start(store)
    watch(idle, clock, 32 * MINUTE)
    (planned,) = limits.keep().stops
    clock.now += MINUTE
    store.release(lease.session_id, "stopped", clock.now)
    (moved,) = limits.keep().moved
    assert (moved.server, moved.move) == (ServerRef("ann"), planned.move)
    clock.now += 11 * MINUTE
    assert limits.keep().moved == (), "it is not tried for ever"
    clock.now -= 10 * MINUTE
    start(store)
    assert limits.keep().moved == ()


def test_a_server_that_its_person_stopped_before_is_not_started(open_store, start, clock, open_idle):
    store, (idle, limits) = open_store(), open_idle(idle_limit=None, gpu_idle_limit=1800, move_to="cpu")
    lease = start(store)
    watch(idle, clock, 20 * MINUTE)
    assert limits.keep().stops
    store.release(lease.session_id, "stopped", clock.now)
    assert limits.keep().moved == ()
