"""How a statement is asked for and written down, for the command and the API alike. Pure.

Texts in, a question out; lines in, rows of cells or plain values out.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from nbgpu.core.cells import Cell
from nbgpu.core.errors import InvalidOptions
from nbgpu.core.focus import COLUMNS, to_focus
from nbgpu.core.ledger import Charge
from nbgpu.core.statement import Amounts, Dimension, Part, Question, ask, totals
from nbgpu.core.texts import Text
from nbgpu.core.units import MICRO

_AMOUNTS = ("server_seconds", "leased_gpu_seconds", "busy_gpu_seconds", "cost", "accrued_cost", "estimated", "currency")


def parse_question(
    by: Sequence[Dimension],
    *,
    month: str | None,
    first: str | None,
    last: str | None,
    today: date,
    zone: tzinfo,
    username: str | None = None,
    billing_group: str | None = None,
    mark: str = "",
) -> Question:
    """Return the question for a month like "2026-11", for days, or for the present month without either.

    `mark` stands before the names of what was asked in errors, like "--". Raises InvalidOptions.
    """
    first_day, last_day = _parse_days(month, first, last, today, mark)
    try:
        return ask(by or [Dimension.USER], first_day, last_day, zone, username=username, billing_group=billing_group)
    except (ValueError, OverflowError) as error:
        raise InvalidOptions(Text("No statement can be made: %(error)s.", error=error)) from None


def find_zone(name: str) -> ZoneInfo:
    """Return a time zone by its name. Raises InvalidOptions."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise InvalidOptions(
            Text(
                'There is no time zone “%(name)s”: give a name of the tz database, like "Europe/Berlin".',
                name=name[:60],
            )
        ) from None


def statement_header(question: Question) -> tuple[str, ...]:
    """Return the names of a statement's columns."""
    return (*question.dimensions, *_AMOUNTS)


def statement_rows(lines: Iterable[Part]) -> Iterator[list[Cell]]:
    """Yield a row a line, without sums; costs as exact decimals."""
    for line in lines:
        amounts = line.amounts
        yield [
            *line.key,
            amounts.server_seconds,
            amounts.gpu_seconds,
            None if amounts.busy_ms is None else Decimal(amounts.busy_ms) / 1000,
            Decimal(amounts.cost) / MICRO,
            Decimal(amounts.accrued) / MICRO,
            str(amounts.estimated).lower(),
            line.currency,
        ]


def focus_rows(charges: Iterable[tuple[Charge, bool]], *, account_id: str) -> Iterator[list[Cell]]:
    """Yield charges, each given with whether it is posted, in the order of FOCUS's columns."""
    for charge, posted in charges:
        row = to_focus(charge, posted=posted, account_id=account_id)
        yield [row.get(column) for column in COLUMNS]


def to_plain(question: Question, lines: Sequence[Part]) -> dict[str, Any]:
    """Return a statement for JSON; costs in micro-units."""
    by = [str(each) for each in question.dimensions]
    return {
        "from": question.first_day.isoformat(),
        "to": question.last_day.isoformat(),
        "by": by,
        "lines": [dict(zip(by, line.key, strict=True)) | _plain_amounts(line.amounts, line.currency) for line in lines],
        "totals": [_plain_amounts(amounts, currency) for currency, amounts in totals(lines).items()],
    }


def _plain_amounts(amounts: Amounts, currency: str) -> dict[str, Any]:
    return {
        "server_seconds": amounts.server_seconds,
        "leased_gpu_seconds": amounts.gpu_seconds,
        "busy_gpu_seconds": None if amounts.busy_ms is None else amounts.busy_ms / 1000,
        "cost_micro": amounts.cost,
        "accrued_cost_micro": amounts.accrued,
        "estimated": amounts.estimated,
        "currency": currency,
    }


def _parse_days(month: str | None, first: str | None, last: str | None, today: date, mark: str) -> tuple[date, date]:
    """Return the first and the last day that are asked for."""
    if month is not None and (first is not None or last is not None):
        raise InvalidOptions(Text("Give either %(mark)smonth, or %(mark)sfrom and %(mark)sto.", mark=mark))
    if first is None and last is not None:
        raise InvalidOptions(Text("%(mark)sto needs %(mark)sfrom: the first day.", mark=mark))
    if first is not None:
        start = _parse_day(first, "from", mark)
        end = _parse_day(last, "to", mark) if last is not None else today
        if start > end:
            raise InvalidOptions(
                Text("%(mark)sfrom %(start)s is after %(mark)sto %(end)s.", mark=mark, start=start, end=end)
            )
        return start, end
    start = _parse_day(f"{month}-01", "month", mark) if month is not None else today.replace(day=1)
    return start, (start.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)


def _parse_day(text: str, name: str, mark: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    if not 1970 <= day.year < 9999:
        like = "2026-11" if name == "month" else "2026-11-30"
        raise InvalidOptions(Text("%(name)s must be a date like %(like)s.", name=mark + name, like=like))
    return day
