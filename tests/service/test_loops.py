"""Loops: one that fails or hangs holds up no other, and says so."""

import logging
import threading

import pytest

from nbgpu.core.errors import StoreError
from nbgpu.service.logs import LONGEST, OneLine
from nbgpu.service.loops import STALE_PERIODS, TELL_AGAIN, Loop, Loops

SOON = 0.005  # seconds


class Turns:
    """Work that counts its turns, and lets a test wait for them."""

    def __init__(self, *outcomes: BaseException | None, always: BaseException | None = None) -> None:
        self.outcomes = list(outcomes)
        self.always = always
        self.count = 0
        self._changed = threading.Condition()

    def __call__(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()
        outcome = self.outcomes.pop(0) if self.outcomes else self.always
        if outcome is not None:
            raise outcome

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= count, timeout=10)


@pytest.fixture
def run():
    """Return what runs loops until the end of the test."""
    started: list[Loops] = []

    def run(*loops: Loop, **more: object) -> Loops:
        started.append(Loops(loops, **more))
        started[-1].start()
        return started[-1]

    yield run
    for each in started:
        each.stop(seconds=0.2)


def test_each_loop_has_a_turn_at_once_and_then_every_period(run):
    often, seldom = Turns(), Turns()
    loops = run(Loop("often", SOON, often), Loop("seldom", 3600, seldom))
    often.wait_for(5)
    seldom.wait_for(1)
    loops.stop()
    count = often.count
    assert seldom.count == 1
    assert loops.health()["often"]["failures"] == 0
    assert often.count == count, "stopped is stopped"


@pytest.mark.parametrize("error", [StoreError("The disk is full."), ZeroDivisionError("division by zero")])
def test_one_that_fails_goes_on_and_disturbs_no_other(run, error, caplog):
    failing, other = Turns(error, error, error), Turns()
    loops = run(Loop("failing", SOON, failing), Loop("other", SOON, other))
    failing.wait_for(6)
    other.wait_for(6)
    loops.stop()
    assert loops.health()["failing"]["failures"] == 0
    told = [record.getMessage() for record in caplog.records if record.name == "nbgpu.service"]
    assert any("works again after 3 failures" in text for text in told)


def test_a_failure_that_lasts_is_told_once_and_then_now_and_then(run, caplog):
    now = [0.0]
    failing = Turns(always=StoreError("The disk is full."))
    loops = run(Loop("failing", 0, failing), monotonic=lambda: now[0])
    failing.wait_for(50)
    assert caplog.text.count("The disk is full.") == 1
    now[0] = TELL_AGAIN
    failing.wait_for(failing.count + 50)
    assert caplog.text.count("The disk is full.") == 2
    described = loops.health()["failing"]
    assert (described["error"], described["succeeded_s_ago"]) == ("The disk is full.", None)


def test_one_that_hangs_is_stale_and_holds_up_neither_others_nor_the_end(run):
    now = [0.0]
    release, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        release.wait(30)

    other = Turns()
    loops = run(Loop("hanging", 1, hang), Loop("other", 0, other), monotonic=lambda: now[0])
    assert begun.wait(10)
    assert not loops.health()["hanging"]["stale"]
    now[0] = STALE_PERIODS + 0.1
    other.wait_for(other.count + 2)
    assert loops.health()["hanging"]["stale"]
    now[0] = 10.0
    loops.stop(seconds=0)
    release.set()


def test_an_event_of_the_log_is_one_line():
    try:
        raise ZeroDivisionError("on\ntwo lines")
    except ZeroDivisionError:
        import sys

        record = logging.LogRecord("n", logging.ERROR, "f", 1, "what %s", ("fa\niled",), sys.exc_info())
    line = OneLine("[%(levelname)1.1s] %(message)s").format(record)
    assert "\n" not in line
    assert line.startswith("[E] what fa | iled | Traceback")
    assert "ZeroDivisionError" in line
    record = logging.LogRecord("n", logging.ERROR, "f", 1, "x" * 10_000, (), None)
    assert len(OneLine("%(message)s").format(record)) == LONGEST + 1
