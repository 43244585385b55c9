"""Starts at one time, bounded; who waits knows their place.

Fifty people who log in at once would otherwise boot fifty servers at once, each of them slower than in turn.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from prometheus_client import Gauge

WAITING = Gauge("nbgpu_starts_waiting", "Starts that wait for their turn")  # among the hub's own metrics


class Turnstile:
    """Lets `limit` holders in at a time, first come first served."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: deque[_Ticket] = deque()

    @asynccontextmanager
    async def turn(self, on_place: Callable[[int], None]) -> AsyncIterator[None]:
        """Hold one of the places; `on_place` is told each time the number of those ahead changes (from 1)."""
        await self._enter(on_place)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, on_place: Callable[[int], None]) -> None:
        if self._free and not self._waiting:
            self._free -= 1
            return
        ticket = _Ticket(on_place)
        self._waiting.append(ticket)
        WAITING.inc()
        on_place(len(self._waiting))
        try:
            await ticket.called.wait()
        except asyncio.CancelledError:
            if ticket.called.is_set():
                self._leave()  # called in the same moment: the place goes to the next
            else:
                self._waiting.remove(ticket)
                WAITING.dec()
                self._tell_places()
            raise

    def _leave(self) -> None:
        if self._waiting:
            self._waiting.popleft().called.set()
            WAITING.dec()
            self._tell_places()
        else:
            self._free += 1

    def _tell_places(self) -> None:
        for place, ticket in enumerate(self._waiting, start=1):
            ticket.on_place(place)


class _Ticket:
    def __init__(self, on_place: Callable[[int], None]) -> None:
        self.on_place = on_place
        self.called = asyncio.Event()
