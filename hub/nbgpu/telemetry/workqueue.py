"""An async queue of keys to look at, each by one worker at a time, with back-off for those that fail.

The promises, as in a Kubernetes controller's queue:

- a key that is put many times before it is taken is taken once;
- a key is never taken by two workers at a time: put meanwhile, it is taken again when the first is done with it;
- a key that failed is put back after a delay that doubles with each failure in a row, up to a limit;
- `forget` ends the row of failures.

It keeps no values: a worker reads the world anew for each key, so a key can't carry stale facts.
"""

import asyncio


class WorkQueue:
    """Keys in the order in which they became due."""

    def __init__(self, *, first_delay: float = 0.5, longest_delay: float = 30.0) -> None:
        """Take the delays after the first failure and at most, in seconds."""
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._due: dict[str, None] = {}  # an ordered set
        self._taken: set[str] = set()
        self._again: set[str] = set()  # put while taken
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._arrived = asyncio.Event()

    def put(self, key: str) -> None:
        """Make a key due now, also one that waits for its back-off."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._taken:
            self._again.add(key)
            return
        self._due[key] = None
        self._arrived.set()

    def put_back(self, key: str) -> None:
        """Make a key that failed due again after its back-off."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(self._longest_delay, self._first_delay * 2 ** (failures - 1))
        if key not in self._timers:
            self._timers[key] = asyncio.get_running_loop().call_later(delay, self._ring, key)

    def forget(self, key: str) -> None:
        """End a key's row of failures."""
        self._failures.pop(key, None)

    async def take(self) -> str:
        """Wait for a due key; call `done` with it afterwards."""
        while not self._due:
            self._arrived.clear()
            await self._arrived.wait()
        key = next(iter(self._due))
        del self._due[key]
        self._taken.add(key)
        return key

    def done(self, key: str) -> None:
        """Hand a taken key back."""
        self._taken.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.put(key)

    def close(self) -> None:
        """Cancel all timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _ring(self, key: str) -> None:
        del self._timers[key]
        self.put(key)
