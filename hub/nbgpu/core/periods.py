"""Spans of time for money: half-open, in whole seconds of UTC. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

HOUR = 3600


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """From `start` (inclusive) to `end` (exclusive), seconds since 1970 in UTC; empty where the end is not later."""

    start: int
    end: int

    @property
    def seconds(self) -> int:
        """The length, never negative."""
        return max(0, self.end - self.start)

    def clip(self, other: "Period") -> "Period":
        """Return the part that lies in `other`; empty where there is none."""
        return Period(max(self.start, other.start), min(self.end, other.end))

    def split(self, instants: Iterable[int]) -> Iterator["Period"]:
        """Yield the parts between those of `instants` that lie inside, in order; nothing for an empty period."""
        if not self.seconds:
            return
        start = self.start
        for instant in sorted({each for each in instants if self.start < each < self.end}):
            yield Period(start, instant)
            start = instant
        yield Period(start, self.end)

    def hours(self) -> range:
        """Return the full hours of UTC that lie inside."""
        return range((self.start // HOUR + 1) * HOUR, self.end, HOUR)


EMPTY = Period(0, 0)


def to_seconds(instant: datetime) -> int:
    """Return an aware instant as whole seconds since 1970: the fraction is dropped."""
    return int(instant.timestamp() // 1)


def to_instant(seconds: int) -> datetime:
    """Return seconds since 1970 as an instant in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
