"""Blocking work beside the event loop, seen through to its end even when the one who waits is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in a thread and see it through: its effect is known when this returns or raises."""
    return await see_through(asyncio.to_thread(function, *args, **kwargs))


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
