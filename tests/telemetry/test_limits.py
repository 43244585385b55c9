"""Keeping limits: told once, stopped through the hub, ended past it while that is away, called off in time."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from nbgpu.core.authorize import Cause
from nbgpu.core.errors import EngineUnavailable, HubRefused, HubUnavailable
from nbgpu.core.leases import ServerRef
from nbgpu.core.periods import to_seconds
from nbgpu.core.reconcile import ContainerFact
from nbgpu.core.stops import Kept, Move, PlannedStop, Stop
from nbgpu.telemetry.limits import LimitKeeper

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
ANN = ServerRef("ann")
ENDED = NOW + timedelta(seconds=3)


class Site:
    """Every party that a keeper talks to; keeps what it is told."""

    def __init__(self) -> None:
        self.planned: list[PlannedStop] = []
        self.told: list[tuple[object, ...]] = []
        self.hub_error: Exception | None = None
        self.engine_error: Exception | None = None
        self.now = NOW
        self.called_off: tuple[str, ...] = ()
        self.watched = 0
        self.start_error: Exception | None = None
        self.text = ""
        self.moved: list[PlannedStop] = []  # what the database says of moves that are to be finished
        self.saved: set[str] = set()  # sessions that are not to be stopped any more

    def keep(self):
        called_off, self.called_off = self.called_off, ()
        return Kept(tuple(self.planned), called_off, tuple(self.moved))

    def is_idle_still(self, session_id):
        return session_id not in self.saved

    def watch_clock(self):
        self.watched += 1

    def deliver(self, session_id, text, stop_at, cause):
        if self.engine_error:
            raise self.engine_error
        self.text = text
        self.told.append(("notice", session_id, text.partition(":")[0], stop_at, cause))
        return True

    def stop(self, server):
        if self.hub_error:
            raise self.hub_error
        self.told.append(("stop", server))

    def start_as(self, server, flavor, image):
        if self.start_error:
            raise self.start_error
        self.told.append(("start", server, flavor, image))

    def containers(self):
        if self.engine_error:
            raise self.engine_error
        return (ContainerFact("c1", "s1", running=True),)

    def end(self, container_id):
        self.told.append(("end", container_id))
        return ENDED

    def release(self, session_id, reason, ended_at=None, *, billable=True):
        self.told.append(("release", session_id, ended_at))
        return True

    def record(self, *, actor, action, subject, detail):
        self.told.append(("audit", actor, action, subject))

    def plan(self, seconds: int, cause: Cause = Cause.BUDGET) -> None:
        self.planned = [PlannedStop("s1", ANN, Stop(to_seconds(NOW) + seconds, cause))]


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def keeper(site) -> LimitKeeper:
    return LimitKeeper(
        limits=site,
        notices=site,
        hub=site,
        fleet=site,
        leases=site,
        audit=site,
        clock=lambda: site.now,
        zone=UTC,
        watch_clock=site.watch_clock,
    )


NOTICE = ("notice", "s1", "This server will be stopped at 12", NOW + timedelta(seconds=60), Cause.BUDGET)
AUDIT = ("audit", "limits", "stop.budget", "ann")


def test_a_stop_is_told_once_and_done_when_it_is_due(keeper, site):
    site.plan(60)
    for seconds in (0, 15, 61, 76):
        site.now = NOW + timedelta(seconds=seconds)
        keeper.tick()
    assert site.told == [NOTICE, AUDIT, ("stop", ANN), ("stop", ANN)], "until it is gone; in the audit log once"


def test_a_stop_that_is_put_off_is_told_again_and_one_that_is_called_off_too(keeper, site):
    site.plan(60)
    keeper.tick()
    site.plan(90)
    keeper.tick()
    site.planned, site.called_off = [], ("s1",)
    keeper.tick()
    keeper.tick()
    assert [each[3] for each in site.told] == [NOW + timedelta(seconds=60), NOW + timedelta(seconds=90), None]


def test_a_call_off_that_fails_is_tried_again_unless_there_is_a_new_stop(keeper, site):
    site.called_off, site.engine_error = ("s1",), EngineUnavailable("Docker does not answer.")
    keeper.tick()
    site.engine_error = None
    keeper.tick()
    assert site.told == [("notice", "s1", "", None, None)]


def test_each_look_begins_with_the_clock(keeper, site):
    keeper.tick()
    assert site.watched == 1


def test_stops_that_are_due_together_wait_for_no_other(keeper, site):
    """Each waits until all are at it: one after the other they would wait for ever."""
    together = threading.Barrier(3, timeout=10)
    site.stop = lambda server: together.wait()
    site.planned = [
        PlannedStop(f"s{number}", ServerRef(f"u{number}"), Stop(to_seconds(NOW), Cause.BUDGET)) for number in range(3)
    ]
    keeper.tick()
    assert together.broken is False


def test_a_notice_that_fails_is_tried_again(keeper, site):
    site.plan(60)
    site.engine_error = EngineUnavailable("Docker does not answer.")
    keeper.tick()
    assert site.told == []
    site.engine_error = None
    keeper.tick()
    assert site.told == [NOTICE]


def test_without_the_hub_the_container_is_ended_and_its_end_kept(keeper, site):
    site.plan(0)
    site.hub_error = HubUnavailable("The hub does not answer.")
    keeper.tick()
    assert site.told[1:] == [AUDIT, ("end", "c1"), ("release", "s1", ENDED)]


def test_without_hub_and_engine_it_is_tried_again(keeper, site):
    site.plan(0)
    site.hub_error = HubUnavailable("The hub does not answer.")
    site.engine_error = EngineUnavailable("Docker does not answer.")
    keeper.tick()
    assert site.told == [AUDIT]
    site.engine_error = None
    keeper.tick()
    assert ("release", "s1", ENDED) in site.told


def test_a_server_that_the_hub_has_not_is_left_to_the_reconciler(keeper, site, caplog):
    site.plan(0)
    site.hub_error = HubRefused("404")
    keeper.tick()
    assert not {"end", "release"} & {each[0] for each in site.told}
    assert "the reconciler will see to it" in caplog.text


def test_an_idle_server_is_told_at_each_warning_and_left_to_the_culler_for_a_while(keeper, site):
    site.planned = [PlannedStop("s1", ANN, Stop(to_seconds(NOW) + 900, Cause.IDLE), warn=(900, 300))]
    for seconds in (0, 15, 600, 615, 900, 1000, 1020):
        site.now = NOW + timedelta(seconds=seconds)
        keeper.tick()
    assert [each[0] for each in site.told] == ["notice", "notice", "audit", "stop"]


def test_an_idle_server_is_not_ended_past_the_hub(keeper, site):
    site.planned = [PlannedStop("s1", ANN, Stop(to_seconds(NOW) - 1000, Cause.IDLE), warn=(900, 300))]
    site.hub_error = HubUnavailable("The hub does not answer.")
    keeper.tick()
    assert not {"end", "release"} & {each[0] for each in site.told}


MOVE = PlannedStop("s1", ANN, Stop(to_seconds(NOW), Cause.GPU_IDLE), (900,), Move("cpu", "base"))


def test_an_idle_gpu_s_server_goes_on_without_it(keeper, site):
    site.planned = [MOVE]
    keeper.tick()
    site.planned, site.moved, site.start_error = [], [MOVE], HubUnavailable("ann is pending")
    keeper.tick()
    site.start_error = None
    keeper.tick()
    site.moved = []  # it has a newer session
    keeper.tick()
    assert [each for each in site.told if each[0] in ("stop", "start")] == [
        ("stop", ANN),
        ("start", ANN, "cpu", "base"),
    ]
    assert "without a GPU" in site.text


def test_a_start_that_is_refused_is_left_to_its_person(keeper, site, caplog):
    site.moved, site.start_error = [MOVE], HubRefused("quota")
    keeper.tick()
    site.start_error = None
    keeper.tick()
    assert "start" not in {each[0] for each in site.told}
    assert "does not go on as cpu: quota" in caplog.text


def test_whoever_was_saved_while_others_were_stopped_is_let_be(keeper, site):
    site.planned = [
        PlannedStop(f"s{number}", ServerRef(f"u{number}"), Stop(to_seconds(NOW) - 500, Cause.IDLE)) for number in (1, 2)
    ]
    site.saved = {"s2"}
    keeper.tick()
    assert [each for each in site.told if each[0] == "stop"] == [("stop", ServerRef("u1"))]


def test_what_costs_money_does_not_wait_for_many_that_are_idle(keeper, site):
    idle = [
        PlannedStop(f"s{number}", ServerRef(f"u{number}"), Stop(to_seconds(NOW) - 500, Cause.IDLE))
        for number in range(50)
    ]
    site.planned = [*idle, PlannedStop("m", ANN, Stop(to_seconds(NOW), Cause.BUDGET))]
    keeper.tick()
    stopped = [each[1] for each in site.told if each[0] == "stop"]
    assert ANN in stopped
    assert len(stopped) == 9
