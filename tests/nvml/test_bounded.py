"""The time limit, with plain functions for calls."""

import threading

import pytest

from nbgpu.nvml.bounded import NoAnswer, OneAtATime


def test_an_answer_and_an_error_come_through():
    calls = OneAtATime()
    assert calls.call(lambda: 42, limit_s=10) == 42
    with pytest.raises(KeyError, match="gone"):
        calls.call(lambda: {}["gone"], limit_s=10)
    assert calls.call(lambda: 43, limit_s=10) == 43


def test_a_stuck_call_is_given_up_and_not_piled_up(join_workers):
    calls, release, started = OneAtATime(), threading.Event(), []

    def stuck():
        started.append(1)
        release.wait(10)

    for _ in range(5):
        with pytest.raises(NoAnswer, match="does not answer"):
            calls.call(stuck, limit_s=0.02)
    assert started == [1]
    assert calls.stuck
    release.set()
    join_workers()
    assert not calls.stuck
    assert calls.call(lambda: "back", limit_s=10) == "back"


def test_callers_wait_for_their_turn():
    calls, running, most = OneAtATime(), [], []

    def read():
        running.append(1)
        most.append(len(running))
        running.pop()

    threads = [threading.Thread(target=calls.call, args=(read,), kwargs={"limit_s": 10}) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert most == [1] * 20


def test_who_waits_behind_a_stuck_call_is_bounded_too(join_workers):
    calls, release, begun = OneAtATime(), threading.Event(), threading.Event()

    def stuck():
        begun.set()
        release.wait(10)

    def first():
        with pytest.raises(NoAnswer, match=r"0\.2 s"):
            calls.call(stuck, limit_s=0.2)

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(10)
    with pytest.raises(NoAnswer, match="does not answer"):
        calls.call(lambda: 1, limit_s=0.05)
    with pytest.raises(NoAnswer, match="does not answer"):
        calls.call(lambda: 1, limit_s=5)  # the turn comes, but the one before is stuck
    release.set()
    thread.join(10)
    join_workers()
