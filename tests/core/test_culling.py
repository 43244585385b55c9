"""Verdicts: what keeps a server, what does not, when it is stopped, what extends it."""

from dataclasses import replace
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest

from nbgpu.core.activity import Reading, Report, Signal, Thresholds, Track, note_reading, note_report
from nbgpu.core.authorize import Cause
from nbgpu.core.culling import Extension, Look, State, extend, judge, left_to_extend, plan_idle_stop
from nbgpu.core.idle_policy import IdlePolicy, IdleRule, QuietHours, find_policy
from nbgpu.core.idle_words import describe_finding, describe_forecast
from nbgpu.core.periods import Period
from nbgpu.core.quotas import Scope, Who
from nbgpu.core.stops import Stop

BEGIN, STALE, LOOK = 1_800_000_000, 120, 30
POLICY = IdlePolicy(idle_limit=3600, gpu_idle_limit=7200, longest_grace=0)
NOTHING, USUAL, NEVER = Report(), Thresholds(), Extension()
IDLE = Reading(span=Period(0, 0), cpu_percent=1.0, network_rate=1000, gpu_percent=0, gpu_memory=0)


def watch(seconds, *, reading=IDLE, report=NOTHING, tracks=None, begin=BEGIN, gap=STALE, thresholds=USUAL):
    """Return the tracks after so long of the same; a `reading` or `report` of None was not told."""
    tracks = tracks or {}
    if report is not None:
        tracks = note_report(tracks, report, begin, gap)
    for at in range(begin + LOOK, begin + seconds + 1, LOOK):
        if reading is not None:
            tracks = note_reading(tracks, replace(reading, span=Period(at - LOOK, at)), thresholds, gap)
        if report is not None:
            tracks = note_report(tracks, report, at, gap)
    return tracks


def look(seconds, *, has_gpu=True, extension=NEVER, zone=UTC):
    return Look(now=BEGIN + seconds, stale=STALE, has_gpu=has_gpu, zone=zone, extension=extension)


def test_a_server_in_which_nothing_happens_is_idle_since_it_is_watched():
    verdict = judge(watch(1800), POLICY, look(1800))
    assert verdict.state is State.QUIET
    assert (verdict.forecast.cause, verdict.forecast.at) == (Cause.IDLE, BEGIN + 3600)


@pytest.mark.case(18)
@pytest.mark.parametrize(
    ("reading", "report"),
    [
        (IDLE, Report(kernels=1, kernels_busy=1)),
        (IDLE, Report(terminals=1, terminal_jobs=1)),
        (replace(IDLE, gpu_percent=90), Report(kernels=1)),
        (replace(IDLE, cpu_percent=100), Report()),
        (replace(IDLE, network_rate=10_000_000), Report()),
        (IDLE, Report(person_ago=5)),
    ],
    ids=["busy kernel", "terminal job", "GPU at 90 % and a quiet kernel", "CPU", "download", "person"],
)
def test_each_kind_of_work_keeps_a_server_beyond_three_limits(reading, report):
    verdict = judge(watch(3 * 3600 + 60, reading=reading, report=report), POLICY, look(3 * 3600 + 60))
    assert verdict.state is State.ACTIVE
    assert verdict.forecast.cause is Cause.GPU_IDLE or verdict.forecast.at > BEGIN + 4 * 3600


@pytest.mark.case(18)
@pytest.mark.parametrize(
    ("signal", "reading", "report"),
    [
        (Signal.KERNEL, IDLE, Report(kernels=1, kernels_busy=1)),
        (Signal.TERMINAL, IDLE, Report(terminals=1, terminal_jobs=1)),
        (Signal.GPU, replace(IDLE, gpu_percent=90), Report()),
        (Signal.CPU, replace(IDLE, cpu_percent=100), Report()),
        (Signal.NETWORK, replace(IDLE, network_rate=10_000_000), Report()),
        (Signal.PERSON, IDLE, Report(person_ago=5)),
    ],
)
def test_what_counts_can_be_switched(signal, reading, report):
    policy = replace(POLICY, signals=POLICY.signals - {signal})
    verdict = judge(watch(7200, reading=reading, report=report), policy, look(7200))
    assert verdict.forecast.at <= BEGIN + 7200
    assert {each.signal for each in verdict.findings if each.state is State.IGNORED} == {signal}


@pytest.mark.case(19)
def test_an_open_connection_and_held_memory_are_no_activity():
    reading = replace(IDLE, gpu_memory=70 * 2**30, network_rate=3000)
    verdict = judge(watch(3600, reading=reading, report=Report(kernels=1, sockets=4)), POLICY, look(3600))
    assert verdict.state is State.QUIET
    assert verdict.forecast.at == BEGIN + 3600


def test_memory_that_changes_is_work():
    tracks = watch(3600)
    tracks = watch(60, reading=replace(IDLE, gpu_memory=2**30), tracks=tracks, begin=BEGIN + 3600)
    verdict = judge(tracks, POLICY, look(3660))
    assert verdict.state is State.ACTIVE
    assert verdict.forecast.since == BEGIN + 3600 + LOOK  # held from then on


@pytest.mark.parametrize("missing", ["reading", "report"])
def test_what_is_not_reported_is_never_idle(missing):
    verdict = judge(watch(7200, **{missing: None}), POLICY, look(7200))
    assert verdict.state is State.UNKNOWN
    assert verdict.forecast is None
    assert plan_idle_stop(verdict, POLICY, None, now=BEGIN + 7200, zone=UTC) is None


def test_a_gap_begins_the_count_anew():
    tracks = watch(3000)
    tracks = watch(600, tracks=tracks, begin=BEGIN + 3000 + 900)
    verdict = judge(tracks, POLICY, look(4500))
    assert verdict.forecast.since == BEGIN + 3900


def test_a_short_gap_changes_nothing():
    tracks = watch(600, tracks=watch(3000), begin=BEGIN + 3000 + 60)
    assert judge(tracks, POLICY, look(3660)).forecast.at == BEGIN + 3600


def test_a_mig_device_without_utilization_is_judged_by_its_memory():
    mig = replace(IDLE, gpu_percent=None)
    verdict = judge(watch(3600, reading=mig), POLICY, look(3600))
    assert verdict.state is State.QUIET
    assert [each.state for each in verdict.findings if each.signal is Signal.GPU] == [State.IGNORED]


def test_a_device_that_reports_neither_is_unknown():
    verdict = judge(watch(3600, reading=replace(IDLE, gpu_percent=None, gpu_memory=None)), POLICY, look(3600))
    assert verdict.state is State.UNKNOWN


def test_utilization_that_is_not_told_any_more_is_unknown_though_memory_is():
    tracks = watch(600, tracks=watch(600), begin=BEGIN + 600, reading=replace(IDLE, gpu_percent=None))
    assert judge(tracks, POLICY, look(1200)).state is State.UNKNOWN


def test_a_server_that_has_lost_its_gpu_is_judged_without_it():
    tracks = watch(3600, reading=replace(IDLE, gpu_percent=None, gpu_memory=None))
    assert judge(tracks, POLICY, look(3600, has_gpu=False)).forecast.cause is Cause.IDLE


def test_a_gpu_that_idles_while_the_person_edits_has_a_limit_of_its_own():
    verdict = judge(watch(7000, report=Report(person_ago=1)), POLICY, look(7000))
    assert verdict.state is State.ACTIVE
    assert (verdict.forecast.cause, verdict.forecast.at) == (Cause.GPU_IDLE, BEGIN + 7200)


def test_a_busy_cpu_phase_between_gpu_phases_is_no_idle_gpu():
    busy = Report(kernels=1, kernels_busy=1)
    tracks = watch(3600, reading=replace(IDLE, gpu_percent=80, cpu_percent=90), report=busy)
    tracks = watch(3 * 3600, reading=replace(IDLE, cpu_percent=100), report=busy, tracks=tracks, begin=BEGIN + 3600)
    assert judge(tracks, POLICY, look(4 * 3600)).forecast.at > BEGIN + 5 * 3600


def test_a_long_download_is_no_idle_gpu():
    reading = replace(IDLE, network_rate=10_000_000)
    tracks = watch(10 * 3600, reading=reading, report=Report(terminals=1, terminal_jobs=1))
    assert judge(tracks, POLICY, look(10 * 3600)).forecast.at > BEGIN + 11 * 3600


def test_a_cell_in_which_nothing_moves_has_the_busy_limit_from_its_begin():
    tracks = watch(1800)
    tracks = watch(7 * 3600, report=Report(kernels_busy=1), tracks=tracks, begin=BEGIN + 1800)
    verdict = judge(tracks, POLICY, look(1800 + 7 * 3600))
    assert verdict.forecast.at == pytest.approx(BEGIN + 1800 + POLICY.busy_limit, abs=LOOK)


def test_grace_grows_with_work_up_to_a_bound():
    policy = replace(POLICY, grace_percent=10, longest_grace=1200)
    short = watch(600, tracks=watch(3600, reading=replace(IDLE, gpu_percent=90)), begin=BEGIN + 3600)
    assert judge(short, policy, look(4200)).forecast.limit == 3600 + 360
    long = watch(600, tracks=watch(10 * 3600, reading=replace(IDLE, gpu_percent=90)), begin=BEGIN + 36000)
    assert judge(long, policy, look(36600)).forecast.limit == 3600 + 1200


def test_a_stop_is_decided_by_the_first_warning_and_called_off_by_work():
    policy = replace(POLICY, gpu_idle_limit=None)
    early = judge(watch(2000), policy, look(2000))
    assert plan_idle_stop(early, policy, None, now=BEGIN + 2000, zone=UTC) is None
    warned = plan_idle_stop(judge(watch(2730), policy, look(2730)), policy, None, now=BEGIN + 2730, zone=UTC)
    assert warned == Stop(BEGIN + 3600, Cause.IDLE)
    tracks = watch(30, tracks=watch(2730), begin=BEGIN + 2730, report=Report(person_ago=3))
    assert plan_idle_stop(judge(tracks, policy, look(2760)), policy, warned, now=BEGIN + 2760, zone=UTC) is None


def test_one_who_could_not_be_warned_in_time_has_the_last_warning_s_time_and_no_more():
    verdict = judge(watch(9000), POLICY, look(9000))
    stop = plan_idle_stop(verdict, POLICY, None, now=BEGIN + 9000, zone=UTC)
    assert stop == Stop(BEGIN + 9300, Cause.IDLE)
    later = judge(watch(9200), POLICY, look(9200))
    assert plan_idle_stop(later, POLICY, stop, now=BEGIN + 9200, zone=UTC) == stop


def test_extensions_count_from_the_decided_stop_and_end_at_the_ceiling():
    policy = replace(POLICY, gpu_idle_limit=None, extend=3600, longest_extension=7200)
    tracks, stop = watch(3000), Stop(BEGIN + 3600, Cause.IDLE)
    verdict = judge(tracks, policy, look(3000))
    first = extend(verdict, Extension(), stop, seconds=3600, now=BEGIN + 3000)
    assert first == Extension(until=BEGIN + 7200, used=3600, asked_at=BEGIN + 3000)
    assert judge(tracks, policy, look(3000, extension=first)).forecast.at == BEGIN + 7200
    second = extend(verdict, first, None, seconds=3600, now=BEGIN + 3000)
    assert left_to_extend(verdict, policy, second) == 0
    worked = judge(
        watch(60, tracks=watch(11000), begin=BEGIN + 11000, report=Report(person_ago=1)), policy, look(11060)
    )
    assert left_to_extend(worked, policy, second) == 7200


def test_an_extension_before_any_warning_counts_from_the_stop_that_would_come():
    verdict = judge(watch(60), POLICY, look(60))
    assert extend(verdict, NEVER, None, seconds=3600, now=BEGIN + 60).until == BEGIN + 7200


def test_work_after_an_extension_begins_the_ceiling_anew_and_the_click_itself_does_not():
    policy = replace(POLICY, longest_extension=3600, gpu_idle_limit=None)
    used = Extension(until=BEGIN + 20_000, used=3600, asked_at=BEGIN + 3000)
    clicked = watch(30, tracks=watch(3000), begin=BEGIN + 3000, report=Report(person_ago=1))
    assert left_to_extend(judge(clicked, policy, look(3030, extension=used)), policy, used) == 0
    worked = watch(30, tracks=watch(9000), begin=BEGIN + 9000, report=Report(person_ago=1))
    assert left_to_extend(judge(worked, policy, look(9030, extension=used)), policy, used) == 3600


def test_nobody_at_work_is_warned_however_early_a_warning_is():
    policy = replace(POLICY, idle_limit=900, warn=(3600, 900))
    verdict = judge(watch(7200, reading=replace(IDLE, gpu_percent=97)), policy, look(7200))
    assert plan_idle_stop(verdict, policy, None, now=BEGIN + 7200, zone=UTC) is None
    verdict = judge(watch(480), policy, look(480))
    assert plan_idle_stop(verdict, policy, None, now=BEGIN + 480, zone=UTC) == Stop(BEGIN + 930, Cause.IDLE)


def test_nobody_is_stopped_in_quiet_hours_however_long_it_is_overdue():
    now = datetime.fromtimestamp(BEGIN + 9000, UTC)  # half past ten
    hours = QuietHours(frozenset(range(7)), time(now.hour - 1), time(now.hour + 2))
    policy = replace(POLICY, idle_limit=900, quiet_hours=(hours,))
    verdict = judge(watch(9000), policy, look(9000))
    end = policy.leave_quiet_hours(BEGIN + 9000, UTC)
    assert end > BEGIN + 9000
    assert verdict.forecast.at == end
    begins = replace(hours, begin=time(now.hour, now.minute + 1))
    policy = replace(POLICY, idle_limit=900, quiet_hours=(begins,))
    verdict = judge(watch(9000), policy, look(9000))
    stop = plan_idle_stop(verdict, policy, None, now=BEGIN + 9000, zone=UTC)
    assert stop.at == end, "the time of the last warning would end in them"


def test_a_clock_that_was_ahead_for_a_moment_is_forgotten():
    ahead = note_reading({}, replace(IDLE, span=Period(BEGIN + 10**7, BEGIN + 10**7 + 30)), USUAL, STALE)
    tracks = watch(1800, tracks=ahead)
    assert judge(tracks, POLICY, look(1800)).forecast.at == BEGIN + 3600


@pytest.mark.parametrize(
    ("stop", "found"),
    [
        ("2026-03-02T10:00", "2026-03-02T18:00"),  # a Monday
        ("2026-03-02T07:59", "2026-03-02T07:59"),
        ("2026-03-02T18:00", "2026-03-02T18:00"),
        ("2026-03-07T10:00", "2026-03-07T10:00"),  # Saturday
        ("2026-03-06T23:30", "2026-03-07T02:00"),  # over midnight
        ("2026-03-07T01:00", "2026-03-07T02:00"),
        ("2026-03-29T01:30", "2026-03-29T01:30"),  # the night of the clock's change
    ],
)
def test_quiet_hours_put_a_stop_off(stop, found):
    zone = ZoneInfo("Europe/Berlin")
    policy = IdlePolicy(
        quiet_hours=(
            QuietHours(frozenset(range(5)), time(8), time(18)),
            QuietHours(frozenset({4}), time(23), time(2)),
        )
    )
    at, expected = (int(datetime.fromisoformat(each).replace(tzinfo=zone).timestamp()) for each in (stop, found))
    assert policy.leave_quiet_hours(at, zone) == expected


def test_quiet_hours_all_round_end_somewhere():
    policy = IdlePolicy(quiet_hours=(QuietHours(frozenset(range(7)), time(0), time(0)),))
    assert policy.leave_quiet_hours(BEGIN, UTC) - BEGIN >= 7 * 86400


EVERYONE, GPU = Who(Scope.EVERYONE), {"gpu": True}
RULES = (
    IdleRule(who=Who(Scope.GROUP, "thesis"), changes={"idle_limit": 40}),
    IdleRule(who=EVERYONE, changes={"idle_limit": 10, "extend": 7}),
    IdleRule(who=EVERYONE, gpu=True, changes={"idle_limit": 5, "gpu_idle_limit": 3}),
    IdleRule(who=EVERYONE, flavor="a100", changes={"idle_limit": 4}),
    IdleRule(who=Who(Scope.GROUP, "lab"), changes={"idle_limit": 20}),
    IdleRule(who=Who(Scope.USER, "dean"), changes={"idle_limit": None, "gpu_idle_limit": None}),
)


@pytest.mark.parametrize(
    ("user", "groups", "flavor", "has_gpu", "idle", "gpu_idle"),
    [
        ("ann", (), "cpu", False, 10, None),
        ("ann", (), "t4", True, 5, 3),
        ("ann", (), "a100", True, 4, 3),
        ("ann", ("lab",), "a100", True, 20, 3),
        ("ann", ("lab", "thesis"), "cpu", False, 40, None),
    ],
)
def test_the_more_special_rule_holds_key_by_key(user, groups, flavor, has_gpu, idle, gpu_idle):
    policy = find_policy(RULES, user, groups, flavor, has_gpu=has_gpu)
    assert (policy.idle_limit, policy.gpu_idle_limit, policy.extend) == (idle, gpu_idle, 7)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(("one", "other", "found"), [(900, 14_400, 14_400), (None, 900, None)])
def test_of_several_groups_each_limit_is_the_longest(order, one, other, found):
    rules = (
        IdleRule(who=Who(Scope.GROUP, "a"), changes={"idle_limit": 3600, "gpu_idle_limit": one}),
        IdleRule(who=Who(Scope.GROUP, "b"), changes={"idle_limit": 1800, "gpu_idle_limit": other}),
    )
    policy = find_policy(rules[::order], "ann", ("a", "b"), "a100", has_gpu=True)
    assert (policy.idle_limit, policy.gpu_idle_limit) == (3600, found)


def test_without_a_gpu_no_limit_of_gpus_holds():
    assert (
        find_policy((IdleRule(who=EVERYONE, changes={"gpu_idle_limit": 3600}),), "ann", (), "cpu", has_gpu=False)
        is None
    )


def test_a_rule_may_say_never():
    assert find_policy(RULES, "dean", ("lab",), "a100", has_gpu=True) is None
    assert find_policy((), "ann", (), "cpu", has_gpu=False) is None


def test_a_reading_that_is_told_twice_counts_once():
    reading = replace(IDLE, span=Period(BEGIN, BEGIN + 30), cpu_percent=50)
    once = note_reading({}, reading, Thresholds(), STALE)
    assert note_reading(once, reading, Thresholds(), STALE) == once
    assert once[Signal.CPU] == Track(
        known_from=BEGIN, known_until=BEGIN + 30, active_at=BEGIN + 30, active_from=BEGIN, worked=30, value=50
    )


def test_it_is_explained_in_sentences():
    reading = replace(IDLE, cpu_percent=87.5, network_rate=2 * 2**20)
    verdict = judge(watch(600, reading=reading), POLICY, look(600))
    said = [str(describe_finding(each, UTC)) for each in verdict.findings]
    assert said == [
        "Nobody has run code, typed in a terminal or saved a file since it is watched.",
        "No cell is running.",
        "No program is running in a terminal.",
        "The CPU is at work: 88 %.",
        "Data comes or goes: 2 MiB/s.",
        "The GPU does next to nothing: 0 %; from 2 % on it would count.",
        "What is held of the GPU's memory does not change.",
    ]
    assert str(describe_forecast(verdict, UTC)) == (
        "If nothing changes, it is stopped at 2027-01-15 09:10 UTC: it may be idle for 1 h, and nothing was seen of it "
        "since 2027-01-15 08:10 UTC."
    )
    unknown = judge(watch(600, report=None), POLICY, look(600))
    assert str(describe_finding(unknown.findings[0], UTC)) == (
        "Not reported at the moment: whether somebody uses it. It is not stopped for being idle."
    )
    assert "not stopped" in str(describe_forecast(unknown, UTC))
