"""Plots by day as plain figures, which a template draws as SVG. Pure.

Coordinates are of an image `WIDTH` by `HEIGHT`, y downwards. A bar carries the value it stands for, in the unit that
was given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

WIDTH, HEIGHT = 760, 250
LEFT, RIGHT, TOP, BOTTOM = 76, 8, 10, 26  # margins, for the axes' words
MOST_LABELS = 8  # of days
STEPS = 4  # about so many lines across
Value = int | None  # None is not reported: no bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The value of one series on one day."""

    day: date
    series: int
    value: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What is to be drawn."""

    bars: tuple[Bar, ...]
    across: tuple[Tick, ...]  # x of days
    up: tuple[Tick, ...]  # y of values
    zero: float  # y of the base line


def stack_bars(days: Sequence[date], series: Sequence[Sequence[int]], *, unit: int) -> Plot:
    """Return bars on top of each other, what is below 0 downwards; `series` has a value a day each."""
    per_day = list(zip(*series, strict=True))
    highest = max((sum(max(0, value) for value in values) for values in per_day), default=0)
    lowest = min((sum(min(0, value) for value in values) for values in per_day), default=0)
    axis = _Axis.over(lowest, highest, unit)
    bars = []
    for number, values in enumerate(per_day):
        above = below = 0
        for which, value in enumerate(values):
            begin = above if value > 0 else below
            if value:
                bars.append(_bar(days, number, which, value=value, begin=begin, axis=axis))
            above, below = above + max(0, value), below + min(0, value)
    return _plot(days, bars, axis)


def overlay_bars(days: Sequence[date], series: Sequence[Sequence[Value]], *, unit: int) -> Plot:
    """Return bars that begin at 0 each, later series before earlier ones."""
    axis = _Axis.over(0, max((value or 0 for values in series for value in values), default=0), unit)
    bars = [
        _bar(days, number, which, value=value, begin=0, axis=axis)
        for which, values in enumerate(series)
        for number, value in enumerate(values)
        if value
    ]
    return _plot(days, bars, axis)


@dataclass(frozen=True, slots=True)
class _Axis:
    low: Decimal  # in whole units, as the labels are
    high: Decimal
    step: Decimal
    unit: int

    @classmethod
    def over(cls, lowest: int, highest: int, unit: int) -> "_Axis":
        low, high = Decimal(lowest) / unit, Decimal(highest) / unit
        step = _find_step((high - low) / STEPS)
        low, high = ((low / step).to_integral_value(ROUND_FLOOR), (high / step).to_integral_value(ROUND_CEILING))
        return cls(low * step, max(high, low + 1) * step, step, unit)

    def y(self, value: Decimal) -> float:
        share = float((value - self.low) / (self.high - self.low))
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 2)

    def ticks(self) -> tuple[Tick, ...]:
        count = int((self.high - self.low) / self.step)
        values = [self.low + number * self.step for number in range(count + 1)]
        return tuple(Tick(self.y(value), f"{value.normalize():f}") for value in values)


def _find_step(least: Decimal) -> Decimal:
    """Return the next of 1, 2 and 5 times a power of ten."""
    if least <= 0:
        return Decimal(1)
    power = Decimal(1).scaleb(least.adjusted())
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)


def _bar(days: Sequence[date], number: int, series: int, *, value: int, begin: int, axis: _Axis) -> Bar:
    slot = _slot(days)
    ends = [axis.y(Decimal(each) / axis.unit) for each in (begin, begin + value)]
    gap = min(2.0, slot * 0.2)
    return Bar(
        day=days[number],
        series=series,
        value=value,
        x=round(LEFT + number * slot + gap / 2, 2),
        y=min(ends),
        width=round(slot - gap, 2),
        height=round(max(ends) - min(ends), 2),
    )


def _slot(days: Sequence[date]) -> float:
    return (WIDTH - LEFT - RIGHT) / max(1, len(days))


def _plot(days: Sequence[date], bars: Sequence[Bar], axis: _Axis) -> Plot:
    every = -(-len(days) // MOST_LABELS) or 1
    first = 0 if days and days[0].year != days[-1].year else 5  # the year where there are two
    across = (
        Tick(round(LEFT + (number + 0.5) * _slot(days), 2), days[number].isoformat()[first:])
        for number in range(0, len(days), every)
    )
    return Plot(bars=tuple(bars), across=tuple(across), up=axis.ticks(), zero=axis.y(Decimal(0)))
