"""The newest answer to a question that may hang."""

import threading
import time

from nbgpu.core.errors import StoreError
from nbgpu.telemetry.latest import Latest


def test_an_answer_that_comes_in_time_is_given():
    answers = iter(["one", "two"])
    latest = Latest(lambda: next(answers), "none", wait=30)
    assert [latest.get(), latest.get()] == ["one", "two"]


def test_a_question_that_hangs_is_waited_for_shortly_and_asked_once():
    asked: list[int] = []
    release = threading.Event()

    def ask() -> str:
        asked.append(1)
        if len(asked) > 1:
            release.wait(30)
            return "late"
        return "first"

    latest = Latest(ask, "none", wait=30)
    assert latest.get() == "first"
    latest._wait = 0.01
    begun = time.monotonic()
    assert [latest.get() for _ in range(5)] == ["first"] * 5
    assert time.monotonic() - begun < 5
    assert len(asked) == 2
    release.set()
    latest._wait = 30
    assert latest.get() == "late", "an answer counts when it comes"


def test_a_database_that_is_away_leaves_the_answer_before():
    answers = [StoreError("away"), "first", StoreError("away")]

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, StoreError):
            raise answer
        return answer

    latest = Latest(ask, "none", wait=30)
    assert [latest.get() for _ in range(3)] == ["none", "first", "first"]
