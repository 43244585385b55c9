"""The spans of time that quotas and budgets count over: rolling, by the calendar, or from one date to another. Pure."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from enum import StrEnum

from nbgpu.core.periods import EMPTY, Period, to_instant, to_seconds


class WindowKind(StrEnum):
    """How a window moves."""

    ROLLING = "rolling"  # the last `length` seconds
    DAY = "day"
    WEEK = "week"  # from Monday
    MONTH = "month"
    TERM = "term"  # from one date to another, once


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A span that usage is counted over; calendar windows begin at midnight of the site's zone."""

    kind: WindowKind
    length: int = 0  # seconds (rolling)
    term: Period = EMPTY

    def period(self, now: int, zone: tzinfo) -> Period:
        """Return the window that `now` lies in, in seconds since 1970; a rolling one ends now."""
        if self.kind is WindowKind.ROLLING:
            return Period(now - self.length, now)
        if self.kind is WindowKind.TERM:
            return self.term
        start = self._first_day(to_instant(now).astimezone(zone))
        return Period(_midnight(start, zone), _midnight(self._next(start), zone))

    def _first_day(self, now: datetime) -> datetime:
        if self.kind is WindowKind.MONTH:
            return now.replace(day=1)
        return now - timedelta(days=now.weekday()) if self.kind is WindowKind.WEEK else now

    def _next(self, start: datetime) -> datetime:
        if self.kind is WindowKind.MONTH:
            return (start.replace(day=28) + timedelta(days=4)).replace(day=1)
        return start + timedelta(days=7 if self.kind is WindowKind.WEEK else 1)


def _midnight(day: datetime, zone: tzinfo) -> int:
    """Return the first second of a day: where midnight is skipped by a change of the clock, that comes later."""
    return to_seconds(datetime.combine(day.date(), time(), zone))
