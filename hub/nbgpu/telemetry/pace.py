"""How much time a sample stands for."""

import time
from collections.abc import Callable


class Pace:
    """Measures from one look to the next by a clock that is never set; one for each loop."""

    def __init__(self, longest: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Take the seconds beyond which nobody knows what was between two looks."""
        self._longest = longest
        self._monotonic = monotonic
        self._last: float | None = None

    def elapsed_ms(self) -> int:
        """Return the milliseconds since the last call; 0 at first and after a gap."""
        last, self._last = self._last, self._monotonic()
        return round((self._last - last) * 1000) if last is not None and self._last - last <= self._longest else 0
