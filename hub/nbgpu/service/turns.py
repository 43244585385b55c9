"""Work that few may do at one time, while the rest wait for their turn, but not for long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """So many turns at one time, given in the order that they were asked for."""

    def __init__(self, at_once: int, *, patience: float) -> None:
        """`patience` is how many seconds one waits for a turn."""
        self._free = asyncio.Semaphore(at_once)
        self._patience = patience

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a turn and have it. Raises TimeoutError where none came in time."""
        async with asyncio.timeout(self._patience):
            await self._free.acquire()
        try:
            yield
        finally:
            self._free.release()
