"""Sums of samples that are not all in the database yet.

A span's row is written again and again while it grows, each time with all that this run has for it. So a sum is only
forgotten when nothing can be added to it any more: a smaller one must never take the place of what was written.
"""

import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from uuid import uuid4

from nbgpu.core.usage import HOUR, MINUTE, Metered, Usage, UsageEntry, floor, split

_LATE = timedelta(minutes=5)  # a sample reaches back less far than this
_STEP = timedelta(minutes=1)  # a clock that goes back further was set back
MOST_MINUTES = 50_000  # that wait for a database that is away: ten hours of forty servers with a device each

_Key = tuple[timedelta, str, datetime, Metered]  # span, run, start


class UsageBook:
    """Sums by minute and by hour; safe to use from many threads."""

    def __init__(self, tell: Callable[[Metered, datetime, Usage], None] | None = None) -> None:
        """Take what is told each measurement, too."""
        self._tell = tell
        self._lock = threading.Lock()
        self._run = _new_run()
        self._latest: datetime | None = None
        self._sums: dict[_Key, Usage] = {}
        self._changed: dict[_Key, None] = {}  # in order of their first change

    def add(self, metered: Metered, until: datetime, usage: Usage) -> None:
        """Add what was measured up to an instant."""
        if usage.sampled_ms <= 0:
            return
        if self._tell is not None:
            self._tell(metered, until, usage)
        with self._lock:
            self._notice_step(until)
            for minute, part in split(usage, until):
                for span, start in ((MINUTE, minute), (HOUR, floor(minute, HOUR))):
                    key = (span, self._run, start, metered)
                    known = self._sums.get(key)
                    self._sums[key] = part if known is None else known + part
                    self._changed[key] = None

    def pending(self) -> tuple[tuple[timedelta, UsageEntry], ...]:
        """Return what is to be written, each with its span."""
        with self._lock:
            self._bound()
            return tuple(
                (span, UsageEntry(metered, start, self._sums[span, run, start, metered], run))
                for span, run, start, metered in self._changed
            )

    def confirm(self, written: Iterable[tuple[timedelta, UsageEntry]]) -> None:
        """Note that these are in the database as they are; forget what is and will not change."""
        with self._lock:
            for span, entry in written:
                key = (span, entry.run, entry.starts_at, entry.metered)
                if self._sums.get(key) is entry.usage:
                    self._changed.pop(key, None)
            for key in [key for key in self._sums if key not in self._changed and self._is_over(key)]:
                del self._sums[key]

    def _is_over(self, key: _Key) -> bool:
        span, run, start, _ = key
        return run != self._run or self._latest is None or start + span + _LATE < self._latest

    def _notice_step(self, now: datetime) -> None:
        """A clock that was set back comes by the same minutes again: what was written of them must stay."""
        if self._latest is not None and now < self._latest - _STEP:
            self._run = _new_run()
            self._latest = now
        self._latest = max(now, self._latest or now)

    def _bound(self) -> None:
        """Drop the oldest minutes that could not be written; the hours, which are few, have their sums."""
        minutes = [key for key in self._changed if key[0] == MINUTE]
        for key in minutes[: max(0, len(minutes) - MOST_MINUTES)]:
            del self._changed[key], self._sums[key]


def _new_run() -> str:
    return uuid4().hex[:12]
