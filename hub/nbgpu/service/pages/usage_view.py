"""The page of usage as plain values: a statement's lines by day, and by something else. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from nbgpu.core.statement import NOTHING, Amounts, Dimension, Part, Question
from nbgpu.core.texts import Text
from nbgpu.core.units import MICRO
from nbgpu.service.pages.plots import Plot, overlay_bars, stack_bars

MOST_SERIES = 6  # colours and patterns that there are
MOST_ROWS = 200
HOUR_MS = 3_600_000
OTHERS = Text("Others")
NO_FLAVOR = Text("Credits and corrections")
NO_GROUP = Text("No group")
Name = str | Text
FindName = Callable[[str], Name]


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRow:
    """One day: the cost of each series, and the sums."""

    day: date
    costs: tuple[int, ...]  # micro-units
    amounts: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Daily:
    """A statement by day, in one currency."""

    currency: str
    names: tuple[Name, ...]  # of the series
    rows: tuple[DayRow, ...]  # of days on which there was anything
    costs: tuple[int, ...]  # of each series in all
    total: Amounts
    cost_plot: Plot | None  # None where nothing was charged
    hours_plot: Plot | None  # leased and busy; None where no GPU was leased

    @property
    def busy_percent(self) -> int | None:
        """How much of the leased GPU time was at work; None where that was not reported."""
        leased, busy = self.total.gpu_seconds, self.total.busy_ms
        return busy * 100 // (leased * 1000) if busy is not None and leased > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What one flavor, session, user or group used, in one currency."""

    key: str
    name: Name
    user: str  # of a session
    flavor: Name  # of a session
    days: tuple[str, str]  # the first and the last in this time, of a session
    currency: str
    amounts: Amounts


def build_dailies(question: Question, lines: Sequence[Part], find_name: FindName) -> tuple[Daily, ...]:
    """Return one a currency of lines by day and flavor; what has no currency goes to the first."""
    currencies = sorted({line.currency for line in lines if line.currency}) or [""] * bool(lines)
    return tuple(
        _build_daily(question, currency, [each for each in lines if each.currency in wanted], find_name)
        for number, currency in enumerate(currencies)
        for wanted in [{currency, ""} if number == 0 else {currency}]
    )


def build_lines(by: Dimension, lines: Iterable[Part], find_name: FindName) -> tuple[Line, ...]:
    """Return what each used, most cost first, of sessions the last first.

    The parts' keys begin with day and flavor; of sessions with session and user, of users and groups with their name.
    """
    found: dict[tuple[str, str], list[Part]] = {}
    for part in lines:
        found.setdefault((part.key[-1], part.currency), []).append(part)
    rows = [_build_line(by, parts, find_name) for parts in found.values()]
    return tuple(sorted(rows, key=lambda row: (row.days[1], row.amounts.cost, row.key), reverse=True))


def _build_line(by: Dimension, parts: Sequence[Part], find_name: FindName) -> Line:
    *before, key = parts[0].key
    days = sorted(part.key[0] for part in parts) if by is Dimension.SESSION else [""]
    return Line(
        key=key,
        name=find_name(key) if by is Dimension.FLAVOR else key or (NO_GROUP if by is Dimension.GROUP else NO_FLAVOR),
        flavor=find_name(before[1]) if by is Dimension.SESSION else "",
        user=before[2] if by is Dimension.SESSION else "",
        days=(days[0], days[-1]),
        currency=parts[0].currency,
        amounts=sum((part.amounts for part in parts), NOTHING),
    )


def _build_daily(question: Question, currency: str, lines: Sequence[Part], find_name: FindName) -> Daily:
    series = _choose_series(lines)
    places = {flavor: number for number, flavors in enumerate(series) for flavor in flavors}
    by_day: dict[str, list[Part]] = {}
    for line in lines:
        by_day.setdefault(line.key[0], []).append(line)
    rows = tuple(_build_day(day, by_day[day], places, len(series)) for day in sorted(by_day))
    found = {row.day: row for row in rows}
    days = [bucket.first_day for bucket in question.buckets]
    costs = [[found[day].costs[number] if day in found else 0 for day in days] for number in range(len(series))]
    return Daily(
        currency=currency,
        names=tuple(find_name(flavors[0]) if len(flavors) == 1 else OTHERS for flavors in series),
        rows=rows,
        costs=tuple(map(sum, costs)),
        total=sum((row.amounts for row in rows), NOTHING),
        cost_plot=stack_bars(days, costs, unit=MICRO) if series else None,
        hours_plot=_plot_hours(days, found),
    )


def _build_day(day: str, parts: Sequence[Part], places: dict[str, int], count: int) -> DayRow:
    costs = [0] * count
    for part in parts:
        if part.key[1] in places:
            costs[places[part.key[1]]] += part.amounts.cost
    amounts = sum((part.amounts for part in parts), NOTHING)
    return DayRow(day=date.fromisoformat(day), costs=tuple(costs), amounts=amounts)


def _choose_series(lines: Iterable[Part]) -> tuple[tuple[str, ...], ...]:
    """Return the flavors of each series, most cost first; the last takes those that are too many."""
    sizes: dict[str, int] = {}
    for line in lines:
        if line.amounts.cost:
            sizes[line.key[1]] = sizes.get(line.key[1], 0) + abs(line.amounts.cost)
    flavors = sorted(sizes, key=lambda flavor: (-sizes[flavor], flavor))
    if len(flavors) <= MOST_SERIES:
        return tuple((flavor,) for flavor in flavors)
    return (*((flavor,) for flavor in flavors[: MOST_SERIES - 1]), tuple(flavors[MOST_SERIES - 1 :]))


def _plot_hours(days: Sequence[date], found: dict[date, DayRow]) -> Plot | None:
    amounts = [found[day].amounts if day in found else NOTHING for day in days]
    leased, busy = [each.gpu_seconds * 1000 for each in amounts], [each.busy_ms for each in amounts]
    if not any(leased) and not any(busy):
        return None
    return overlay_bars(days, [leased, busy], unit=HOUR_MS)
