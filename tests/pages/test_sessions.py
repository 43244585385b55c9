"""Why a session ended, in a reader's words: every reason that the program itself writes is understood."""

import pytest

from nbgpu.core.errors import EngineError, NoCapacity, ServerDied
from nbgpu.core.texts import Text
from nbgpu.spawner.endings import describe_last_words, explain_end, fit_reason
from nbgpu.spawner.failures import explain_failure, to_spawn_exception
from nbgpu.spawner.i18n import get_translator
from support.users import start


@pytest.mark.parametrize(
    ("reason", "why", "advised", "words"),
    [
        ("stopped", "It was stopped on request", False, ""),
        ("cancelled", "The start was cancelled", False, ""),
        ("reconciled: its container is gone", "which the hub found when it compared", True, ""),
        ("left over by an earlier start", "left over from a start", False, ""),
        ("The container is gone.", "Its container is gone", True, ""),
        (
            "The server ran out of memory and was ended. Take a flavor with more RAM. Last log lines: Killed",
            "ran out of memory",
            True,
            "Killed",
        ),
        ("failed start: The container ended with exit code 3. Last log lines: a\nb", "exit code 3", True, "a\nb"),
        ("The container ended with exit code -9: no such file.", "exit code -9", True, ""),
        ("The server was killed from outside.", "It was killed", True, ""),
        ("The server ended with signal 9.", "ended by a signal", True, ""),
        ("The server ended with exit code 1. Last log lines: x", "exit code 1", True, "x"),
        ("failed start: The server did not answer within 120 s and was ended.", "did not answer in time", True, ""),
        ("failed start: No such device 100%", "Its start failed: No such device 100%", True, ""),
        ("Idle for 2 h: <b>", "Idle for 2 h: <b>", False, ""),
        ("", "The reason is not known.", True, ""),
    ],
)
def test_a_reason_is_explained(reason, why, advised, words):
    ending = explain_end(reason)
    assert why in str(ending.why)
    assert (ending.advice is not None, ending.words) == (advised, words)


def test_of_long_last_words_the_end_is_kept():
    words = describe_last_words(b"x" * 900 + b" No module named torch")
    reason = f"failed start: The container ended with exit code 1. {words}"
    kept = fit_reason(reason, 255)
    assert len(kept) == 255
    assert explain_end(kept).words.endswith("xx No module named torch")
    assert fit_reason("a" * 300, 255) == "a" * 255
    assert fit_reason("stopped", 255) == "stopped"


async def test_the_newest_session_is_shown(site):
    user = site.users["ann"]
    assert site.desk.sessions("ann", [""]) == {}
    await start(user, profile="two")
    running = site.desk.sessions("ann", ["", "other"])
    assert set(running) == {""}
    assert (running[""].flavor, running[""].devices) == ("TWO", ("NVIDIA A100", "NVIDIA A100"))
    assert (str(running[""].price), running[""].ended_at, running[""].ending) == ("0.60 USD per hour", None, None)
    await user.stop()
    ended = site.desk.sessions("ann", [""])[""]
    assert ended.ended_at is not None
    assert "stopped on request" in str(ended.ending.why)
    assert site.desk.sessions("bob", [""]) == {}


def test_a_refusal_speaks_the_language_of_who_started_and_of_who_reads():
    refusal = to_spawn_exception(NoCapacity(Text("All are in use.")), get_translator("zh-CN"))
    assert refusal.jupyterhub_message == refusal.message
    assert (refusal.message, refusal.log_message, refusal.reason) == ("已全部占用。", "All are in use.", "capacity")
    ending = explain_failure(refusal, refusal.message)
    assert (str(ending.why), ending.advice) == ("All are in use.", None)


def test_a_fault_keeps_the_servers_own_words():
    died = ServerDied("The container ended with exit code 3. Last log lines: broken")
    assert "程序已结束，退出码 3。 broken" in to_spawn_exception(died, get_translator("zh-CN")).jupyterhub_message
    fault = to_spawn_exception(died, get_translator("en"))
    assert fault.jupyterhub_message == str(died)
    assert explain_failure(fault, None).words == "broken"


def test_another_exception_is_shown_with_the_hubs_message():
    assert "proxy is down" in str(explain_failure(RuntimeError("secret"), "proxy is down").why)
    assert "not known" in str(explain_failure(None, None).why)
    assert "disk" in str(explain_failure(to_spawn_exception(EngineError("disk"), get_translator("en")), None).why)
