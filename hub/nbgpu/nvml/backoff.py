"""Waiting longer after each failure, so that a broken driver is not asked without pause."""

from datetime import datetime, timedelta

FIRST = timedelta(seconds=0.5)
LONGEST = timedelta(seconds=5)  # about one interval of a sampler: a driver that is back is seen at its next reading


class BackOff:
    """Counts failures in a row and says whether it is too early to try again."""

    def __init__(self, *, first: timedelta = FIRST, longest: timedelta = LONGEST) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0
        self._failed_at: datetime | None = None
        self.reason = ""

    def fail(self, now: datetime, reason: str) -> None:
        """Note a failure."""
        self._failures += 1
        self._failed_at = now
        self.reason = reason

    def succeed(self) -> None:
        """Note that all is well again."""
        self._failures = 0
        self._failed_at = None

    def is_waiting(self, now: datetime) -> bool:
        """Whether it is too early to try again. A clock that was set back does not prolong the wait."""
        if self._failed_at is None:
            return False
        delay = min(self._first * (1 << min(self._failures - 1, 10)), self._longest)
        return timedelta(0) <= now - self._failed_at < delay
