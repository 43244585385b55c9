"""Blocking work beside the event loop, seen through to its end even when the one who waits is cancelled.

What may ask the engine has threads of its own: an engine that hangs then holds up neither our database, nor the event
loop's own threads, with which the hub looks up addresses for each request it makes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_SHORT = ThreadPoolExecutor(16, thread_name_prefix="desk")
_LONG = ThreadPoolExecutor(32, thread_name_prefix="asking")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a short blocking function in a thread and see it through: its effect is known when this returns or raises."""
    return await see_through(_run(_SHORT, partial(function, *args, **kwargs)))


async def only_asking(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function that may ask the engine and changes nothing; a cancellation does not wait for it."""
    return await _run(_LONG, partial(function, *args, **kwargs))


def _run(pool: ThreadPoolExecutor, function: Callable[[], T]) -> "asyncio.Future[T]":
    return asyncio.get_running_loop().run_in_executor(pool, function)


async def see_through(work: Awaitable[T]) -> T:
    """Await work that must not be left in the middle; a cancellation is raised when it has ended."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # seen: the cancellation is what counts
        raise
    return task.result()
