"""Statements: what was used and what it cost, added up by whatever the reader asks for. Pure.

The ledger's lines end at full hours of UTC. Where the reader's midnight lies within a line (zones of 30 and 45
minutes), the line is divided by seconds: each part is the difference of the rounded sum at its two ends, so that the
parts add up to the line, and the days to the month. Credits and adjustments are not divided: they are of the day they
begin in.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from enum import StrEnum

from nbgpu.core.errors import InvalidOptions
from nbgpu.core.ledger import Charge, ChargeCategory
from nbgpu.core.periods import Period, to_seconds
from nbgpu.core.texts import Text

MOST_DAYS = 400  # of one statement by day: each is read by itself
MOST_MONTHS = 1200


class Dimension(StrEnum):
    """What a statement's lines are of."""

    USER = "user"
    GROUP = "group"
    FLAVOR = "flavor"
    SKU = "sku"
    SESSION = "session"
    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A day, a month or the whole of a statement, by the reader's calendar."""

    first_day: date
    period: Period


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What is added up. Money in micro-units."""

    server_seconds: int = 0  # leased, of servers
    gpu_seconds: int = 0  # leased, of GPUs, MIG instances and slots
    busy_ms: int | None = None  # what samples say of how long those were at work; None: nothing was reported
    cost: int = 0  # of leased time, whether it is posted yet or not
    accrued: int = 0  # the part of it that is not posted yet: of sessions that run
    estimated: bool = False  # whether an end that nobody saw is in it

    def __add__(self, other: "Amounts") -> "Amounts":
        """Return the sums."""
        busy = [each for each in (self.busy_ms, other.busy_ms) if each is not None]
        return Amounts(
            server_seconds=self.server_seconds + other.server_seconds,
            gpu_seconds=self.gpu_seconds + other.gpu_seconds,
            busy_ms=sum(busy) if busy else None,
            cost=self.cost + other.cost,
            accrued=self.accrued + other.accrued,
            estimated=self.estimated or other.estimated,
        )

    def part(self, begin: int, end: int, whole: int) -> "Amounts":
        """Return the part from `begin` to `end` of `whole` seconds; the parts of a division add up.

        Rounded towards zero at both ends, so that a line and its reversal are divided alike.
        """

        def upto(value: int, seconds: int) -> int:
            return abs(value) * seconds // whole * (-1 if value < 0 else 1)

        def cut(value: int) -> int:
            return upto(value, end) - upto(value, begin)

        return Amounts(
            server_seconds=cut(self.server_seconds),
            gpu_seconds=cut(self.gpu_seconds),
            busy_ms=None if self.busy_ms is None else cut(self.busy_ms),
            cost=cut(self.cost),
            accrued=cut(self.accrued),
            estimated=self.estimated,
        )


NOTHING = Amounts()


@dataclass(frozen=True, slots=True)
class Part:
    """Amounts of one line of a statement; `currency` is "" where there is no money in it."""

    key: tuple[str, ...]
    currency: str
    amounts: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a statement is asked for; the buckets follow each other without a gap."""

    dimensions: tuple[Dimension, ...]
    buckets: tuple[Bucket, ...]
    last_day: date
    username: str | None = None  # of this user alone
    billing_group: str | None = None  # of this group alone

    @property
    def period(self) -> Period:
        """The whole of it."""
        return Period(self.buckets[0].period.start, self.buckets[-1].period.end)

    @property
    def first_day(self) -> date:
        """The first day that is asked for."""
        return self.buckets[0].first_day

    def find_bucket(self, instant: int) -> int | None:
        """Return the number of the bucket that an instant lies in; None where it lies outside."""
        number = bisect_right(self.buckets, instant, key=lambda bucket: bucket.period.start) - 1
        return number if number >= 0 and instant < self.buckets[number].period.end else None

    def key(self, values: Sequence[str], bucket: int) -> tuple[str, ...]:
        """Return a line's key; `values` are of the dimensions that are not of time, in their order."""
        if len(values) == len(self.dimensions):
            return tuple(values)
        rest, first_day = iter(values), self.buckets[bucket].first_day.isoformat()
        days = {Dimension.DAY: first_day, Dimension.MONTH: first_day[:7]}
        return tuple(days[each] if each in days else next(rest) for each in self.dimensions)

    def cut(self, amounts: Amounts, period: Period) -> Iterator[tuple[int, Amounts]]:
        """Yield (number of bucket, its part) of what spreads evenly over a period; what lies outside is left out."""
        first = bisect_right(self.buckets, period.start, key=lambda bucket: bucket.period.end)
        for number in range(first, len(self.buckets)):
            inside = period.clip(self.buckets[number].period)
            if not inside.seconds:
                return
            yield number, amounts.part(inside.start - period.start, inside.end - period.start, period.seconds)


def ask(
    dimensions: Iterable[Dimension],
    first_day: date,
    last_day: date,
    zone: tzinfo,
    *,
    username: str | None = None,
    billing_group: str | None = None,
) -> Question:
    """Return the question for whole days of a zone, both ends included.

    Raises InvalidOptions for more days or months than one statement may have, ValueError where there is no such day.
    """
    wanted = tuple(dict.fromkeys(dimensions))
    _check_length(wanted, first_day, last_day)
    starts = list(_starts(wanted, first_day, last_day))
    instants = [midnight(day, zone) for day in (*starts, last_day + timedelta(days=1))]
    found = (Bucket(day, Period(*ends)) for day, *ends in zip(starts, instants, instants[1:], strict=False))
    buckets = tuple(bucket for bucket in found if bucket.period.seconds)
    if not buckets:
        raise ValueError(f"there is no day from {first_day} to {last_day} in {zone}")
    return Question(
        dimensions=wanted, buckets=buckets, last_day=last_day, username=username, billing_group=billing_group
    )


def midnight(day: date, zone: tzinfo) -> int:
    """Return the first second of a day: where midnight is skipped by a change of the clock, that comes later."""
    return to_seconds(datetime.combine(day, time(), zone))


def split_charge(question: Question, charge: Charge, *, accrued: bool = False) -> Iterator[tuple[int, Amounts]]:
    """Yield (number of bucket, amounts) of a charge."""
    amounts = Amounts(
        server_seconds=0 if charge.resource_id else charge.consumed_seconds,
        gpu_seconds=charge.consumed_seconds if charge.resource_id else 0,
        cost=charge.billed_cost,
        accrued=charge.billed_cost if accrued else 0,
        estimated=charge.estimated,
    )
    period = Period(charge.charge_period_start, charge.charge_period_end)
    if charge.charge_category == ChargeCategory.USAGE and period.seconds:
        yield from question.cut(amounts, period)
        return
    number = question.find_bucket(period.start)
    if number is not None:
        yield number, amounts


def merge(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return one part a key and currency, in the order of the keys; what has no currency goes to the key's first."""
    sums: dict[tuple[tuple[str, ...], str], Amounts] = {}
    for part in parts:
        place = part.key, part.currency
        before = sums.get(place)
        sums[place] = part.amounts if before is None else before + part.amounts
    lines: list[Part] = []
    without: dict[tuple[str, ...], Amounts] = {}
    for key, currency in sorted(sums):  # "" comes before all currencies of its key
        amounts = sums[key, currency]
        if not currency:
            without[key] = amounts
            continue
        rest = without.pop(key, None)
        lines.append(Part(key, currency, amounts if rest is None else amounts + rest))
    if without:
        lines = sorted([*lines, *(Part(key, "", amounts) for key, amounts in without.items())], key=_place)
    return tuple(lines)


def totals(lines: Iterable[Part]) -> dict[str, Amounts]:
    """Return the sums by currency, of which there are several only where a site has changed its own."""
    return {line.currency: line.amounts for line in merge(Part((), line.currency, line.amounts) for line in lines)}


def _place(line: Part) -> tuple[tuple[str, ...], str]:
    return line.key, line.currency


def _check_length(dimensions: Sequence[Dimension], first_day: date, last_day: date) -> None:
    """Raise InvalidOptions for too many buckets, which are counted, not built."""
    months = (last_day.year - first_day.year) * 12 + last_day.month - first_day.month + 1
    counts = {Dimension.DAY: ((last_day - first_day).days + 1, MOST_DAYS), Dimension.MONTH: (months, MOST_MONTHS)}
    unit = Dimension.DAY if Dimension.DAY in dimensions else Dimension.MONTH
    count, most = counts[unit]
    if unit in dimensions and count > most:
        raise InvalidOptions(
            Text(
                "%(first)s to %(last)s by %(unit)s is %(count)s %(unit)ss; a statement has at most %(most)s. Ask for a "
                "shorter time, or not by %(unit)s.",
                first=first_day,
                last=last_day,
                unit=unit,
                count=count,
                most=most,
            )
        )


def _starts(dimensions: Sequence[Dimension], first_day: date, last_day: date) -> Iterator[date]:
    """Yield the first day of each bucket."""
    day = first_day
    while day <= last_day:
        yield day
        if Dimension.DAY in dimensions:
            day += timedelta(days=1)
        elif Dimension.MONTH in dimensions:
            day = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
        else:
            return
