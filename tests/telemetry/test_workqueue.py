"""The queue's promises."""

import asyncio

import pytest

from nbgpu.telemetry.workqueue import WorkQueue


@pytest.fixture
async def queue():
    queue = WorkQueue(first_delay=0.01, longest_delay=0.04)
    yield queue
    queue.close()


async def taken(queue: WorkQueue) -> str:
    return await asyncio.wait_for(queue.take(), 1)


async def is_empty(queue: WorkQueue) -> bool:
    done, waiting = await asyncio.wait([asyncio.ensure_future(queue.take())], timeout=0.005)
    for task in waiting:
        task.cancel()
    return not done


async def test_keys_come_in_order_and_once(queue):
    for key in ("a", "b", "a"):
        queue.put(key)
    assert [await taken(queue), await taken(queue)] == ["a", "b"]
    assert await is_empty(queue)


async def test_a_waiting_worker_wakes(queue):
    worker = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)
    queue.put("a")
    assert await asyncio.wait_for(worker, 1) == "a"


async def test_a_key_is_worked_on_by_one_at_a_time_and_never_lost(queue):
    queue.put("a")
    await taken(queue)
    queue.put("a")
    queue.put("a")
    assert await is_empty(queue)
    queue.done("a")
    assert await taken(queue) == "a"
    queue.done("a")
    assert await is_empty(queue)


async def test_a_failed_key_comes_back_later_each_time_up_to_a_limit(queue):
    loop = asyncio.get_running_loop()
    delays = []
    for _ in range(4):
        before = loop.time()
        queue.put_back("a")
        await taken(queue)
        queue.done("a")
        delays.append(loop.time() - before)
    assert delays[0] < 0.02 <= delays[1] < delays[2]
    assert 0.04 <= delays[3] < 0.08


async def test_forgetting_ends_the_row_of_failures(queue):
    for _ in range(3):
        queue.put_back("a")
        await taken(queue)
        queue.done("a")
    queue.forget("a")
    before = asyncio.get_running_loop().time()
    queue.put_back("a")
    await taken(queue)
    assert asyncio.get_running_loop().time() - before < 0.035


async def test_news_of_a_key_ends_its_wait(queue):
    queue = WorkQueue(first_delay=60)
    queue.put_back("a")
    queue.put("a")
    assert await taken(queue) == "a"
    queue.done("a")
    assert await is_empty(queue)
    queue.close()
