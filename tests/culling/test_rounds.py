"""Rounds of the culler over a stub of the hub: who is due is stopped, on whatever page; nobody else ever is."""

import asyncio
import gc
import logging

import pytest

from nbgpu.telemetry.cull_round import PER_LANE, cull_round
from nbgpu.wiring import culler as process
from support.stub_hub import TOKEN, session_of

NEVER_RUN = f"ignore:{process.NEVER_RUN}:RuntimeWarning"


@pytest.fixture
def collected():
    """Have what the library never ran collected in the test that caused it, where the warning is expected."""
    yield
    gc.collect()


async def always(sessions):
    return sessions


def paths_of(numbers):
    return {
        f"/users/user-{each:05}/servers/second" if each % 10 == 9 else f"/users/user-{each:05}/server"
        for each in numbers
    }


@pytest.mark.case(20)
@pytest.mark.parametrize("page", [50, 100])
async def test_due_servers_on_all_pages_and_their_borders_are_stopped(stub, culler_of, caplog, page):
    caplog.set_level(logging.INFO, "nbgpu.culler")
    idle = [0, 1, 49, 50, 51, 99, 100, 199, 200, 201, 399, 400, 448, 449]
    hub = stub(450, page=page, due={session_of(each) for each in idle})
    await culler_of(hub).round()
    assert {path for path, _ in hub.stops} == paths_of(idle)
    assert len(hub.stops) == len(idle)
    assert {body for _, body in hub.stops} == {""}, "a named server is stopped and stays"
    assert f"Examined 450 running servers: {len(idle)} were due, {len(idle)} of them were told to stop" in caplog.text
    assert hub.lists == [list(range(0, 450, page))]


@pytest.mark.case(20)
@pytest.mark.filterwarnings(NEVER_RUN)
@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("failing", [[0], [200], [400], [0, 200]])
async def test_a_page_that_fails_is_asked_for_again(stub, failing):
    hub = stub(450, due={session_of(3), session_of(449)}, failing=list(failing))
    due = sorted(hub.due)
    done = await cull_round(hub.url, TOKEN, due=due, still_due=lambda: always(due), pause=0.01)
    assert (done.examined, done.failed, done.stopped) == (450, 0, frozenset(due))
    assert {path for path, _ in hub.stops} == paths_of([3, 449])
    assert len(hub.stops) == 2


@pytest.mark.case(20)
@pytest.mark.filterwarnings(NEVER_RUN)
@pytest.mark.usefixtures("collected")
async def test_what_a_hub_that_is_away_leaves_over_is_done_when_it_is_back(stub, culler_of, caplog):
    hub = stub(450, due={session_of(3), session_of(449)}, failing=[200, 200, 200])
    culler = culler_of(hub)
    await culler.round()
    assert hub.stops == []
    assert "can't be read (try 3 of 3)" in caplog.text
    await culler.round()
    assert {path for path, _ in hub.stops} == paths_of([3, 449])


@pytest.mark.case(20)
async def test_of_five_thousand_all_are_looked_at(stub, culler_of, caplog):
    caplog.set_level(logging.INFO, "nbgpu.culler")
    idle = [*range(0, 5000, 113), 4999]
    hub = stub(5000, due={session_of(each) for each in idle})
    await culler_of(hub).round()
    assert sorted(path for path, _ in hub.stops) == sorted(paths_of(idle))
    assert "Examined 5000 running servers" in caplog.text
    assert hub.lists == [list(range(0, 5000, 100))]


async def test_while_nothing_is_due_the_hub_is_not_asked(stub, culler_of):
    hub = stub(450)
    await culler_of(hub).round()
    assert (hub.asked_service, hub.lists, hub.stops) == (1, [], [])


@pytest.mark.parametrize("away", ["busy", "gone"])
async def test_while_the_service_can_not_be_asked_nobody_is_stopped(stub, culler_of, caplog, away):
    hub = stub(10, due={session_of(3)}, service_is_away=True)
    culler = culler_of(hub)
    if away == "gone":
        (culler._service._deployment.data / "service-port").write_text("1\n")
    await culler.round()
    culler._service._asked = float("-inf")
    await culler.round()
    assert (hub.lists, hub.stops) == ([], [])
    assert caplog.text.count("can't be asked which servers are due, and none is stopped") == 1


async def test_a_server_that_was_started_anew_meanwhile_is_left_alone(stub, culler_of):
    hub = stub(10, due={session_of(3), session_of(4)})
    hub.servers["user-00003"]["state"]["session_id"] = "a new one"
    hub.servers["user-00005"]["state"] = None
    await culler_of(hub).round()
    assert {path for path, _ in hub.stops} == paths_of([4])


@pytest.mark.parametrize("state", [{"pending": "spawn"}, {"pending": "stop"}, {"ready": False}])
async def test_a_server_that_the_hub_is_at_work_on_is_left_alone(stub, culler_of, state):
    hub = stub(10, due={session_of(3)})
    hub.servers["user-00003"] |= state
    await culler_of(hub).round()
    assert hub.stops == []


async def test_one_that_was_extended_while_others_were_stopped_goes_on(stub):
    hub = stub(10, due={session_of(3), session_of(4)})
    answers = iter([{session_of(3)}, set()])

    async def still_due():
        return next(answers)

    done = await cull_round(hub.url, TOKEN, due=sorted(hub.due), still_due=still_due)
    assert done.stopped == {session_of(3)}
    assert {path for path, _ in hub.stops} == paths_of([3])


async def test_many_that_are_due_are_each_stopped_once(stub, culler_of):
    """Several go through the list at the same time, each for a share."""
    many = range(0, 450, 3)
    hub = stub(450, due={session_of(each) for each in many})
    await culler_of(hub).round()
    assert sorted(path for path, _ in hub.stops) == sorted(paths_of(many))
    assert 1 < len(hub.lists) == -(-len(many) // PER_LANE)


async def test_a_round_that_fails_is_not_the_last(stub, culler_of, caplog):
    hub = stub(10, due={session_of(3)})
    culler = culler_of(hub)
    culler._period = 0.01
    asked, next_round = [], asyncio.Event()

    async def due():
        asked.append(1)
        if len(asked) == 1:
            raise RuntimeError("a surprise")
        if len(asked) == 4:  # after the surprise, the round, and whether it still holds
            next_round.set()
        return hub.due

    culler._service.due = due
    running = asyncio.create_task(culler.run())
    await asyncio.wait_for(next_round.wait(), 20)
    running.cancel()
    assert {path for path, _ in hub.stops} == paths_of([3])
    assert "A round failed; the next one comes" in caplog.text


async def test_memory_does_not_grow_over_rounds(stub, culler_of):
    hub = stub(1000)
    culler = culler_of(hub)

    async def one_round():
        culler._service._asked = float("-inf")
        hub.due = {"somebody else's"}  # so that all are looked at, and nobody is stopped
        await culler.round()

    for _ in range(3):
        await one_round()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(10):
        await one_round()
    gc.collect()
    assert len(hub.lists) == 13
    assert len(gc.get_objects()) - before < 500, "a thousand users' models are thousands of objects"
