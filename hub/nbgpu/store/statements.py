"""Statements out of the database: the ledger summed by SQL over an index of time, what is not posted yet beside it.

A line of usage is at most an hour long and ends at a full hour of UTC at the latest (`core.ledger`), so that a midnight
that is no full hour divides only lines that began within the hour before: these alone are read one by one.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import CTE, BigInteger, ColumnElement, Engine, Integer, and_, case, column, func, or_, select
from sqlalchemy import values as sql_values
from sqlalchemy.orm import Session

from nbgpu.core.ledger import Charge, ChargeCategory
from nbgpu.core.periods import HOUR, Period
from nbgpu.core.statement import Amounts, Dimension, Part, Question, merge, split_charge
from nbgpu.store.ledger import FIELDS
from nbgpu.store.metering import accrued_in
from nbgpu.store.schema import ChargeRow, SessionRow
from nbgpu.store.usage_schema import UsageHourRow
from nbgpu.store.work import retried, unit_of_work

_LINE = {
    Dimension.USER: ChargeRow.username,
    Dimension.GROUP: ChargeRow.billing_group,
    Dimension.FLAVOR: ChargeRow.flavor,
    Dimension.SKU: ChargeRow.sku_id,
    Dimension.SESSION: ChargeRow.session_id,
}
_USAGE = {
    Dimension.USER: SessionRow.username,
    Dimension.GROUP: SessionRow.billing_group,
    Dimension.FLAVOR: SessionRow.flavor,
    Dimension.SKU: SessionRow.flavor + ":gpu:" + SessionRow.tariff,  # as core.prices.device_sku
    Dimension.SESSION: SessionRow.session_id,
}
_OF_DEVICE = UsageHourRow.device_uuid != ""
_IS_USAGE = ChargeRow.charge_category == ChargeCategory.USAGE.value


class SqlStatements:
    """Statements over a database; safe to use from many threads and processes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @retried
    def read(self, question: Question, now: datetime) -> tuple[Part, ...]:
        """Return a statement's lines as of one instant; sessions that run are charged up to `now`."""
        with unit_of_work(self._engine, reads_only=True) as db:
            _freeze(db)
            return merge(
                [
                    *_posted(db, question),
                    *_straddling(db, question),
                    *_accrued(accrued_in(db, now), question),
                    *_busy(db, question),
                ]
            )

    @retried
    def charges(self, question: Question, now: datetime) -> tuple[tuple[Charge, bool], ...]:
        """Return the single lines that begin in the question's time, each with whether it is posted."""
        with unit_of_work(self._engine, reads_only=True) as db:
            _freeze(db)
            start, end = question.period.start, question.period.end
            rows = db.execute(
                select(*(getattr(ChargeRow, name) for name in FIELDS))
                .where(ChargeRow.charge_period_start >= start, ChargeRow.charge_period_start < end, *_whose(question))
                .order_by(ChargeRow.charge_period_start, ChargeRow.id)
            )
            posted = [(Charge(*row), True) for row in rows]
            running = [each for each in accrued_in(db, now) if _is_asked_for(each, question)]
        return (*posted, *((each, False) for each in running if start <= each.charge_period_start < end))


def _freeze(db: Session) -> None:
    """Have all of a transaction see one instant: a line that is posted meanwhile would be missed, or counted twice."""
    if db.get_bind().dialect.name == "postgresql":
        db.connection(execution_options={"isolation_level": "REPEATABLE READ"})


def _posted(db: Session, question: Question) -> Iterator[Part]:
    """Yield the sums of lines that lie within a bucket."""
    buckets, fields = _buckets(question), _fields(question, _LINE)
    within = or_(~_IS_USAGE, ChargeRow.charge_period_end <= buckets.c.ending)
    of_server = ChargeRow.resource_id == ""
    rows = db.execute(
        select(
            buckets.c.number,
            ChargeRow.billing_currency,
            func.sum(case((of_server, ChargeRow.consumed_seconds), else_=0)),
            func.sum(case((of_server, 0), else_=ChargeRow.consumed_seconds)),
            func.sum(ChargeRow.billed_cost),
            func.max(case((ChargeRow.estimated, 1), else_=0)),
            *fields,
        )
        .select_from(buckets.join(ChargeRow, and_(_begins_in(ChargeRow.charge_period_start, buckets), within)))
        .where(*_whose(question))
        .group_by(buckets.c.number, ChargeRow.billing_currency, *fields)
    )
    for number, currency, server, gpu, cost, estimated, *key in rows:
        amounts = Amounts(server_seconds=int(server), gpu_seconds=int(gpu), cost=int(cost), estimated=bool(estimated))
        yield Part(question.key(key, number), currency, amounts)


def _straddling(db: Session, question: Question) -> Iterator[Part]:
    """Yield the parts of lines that a midnight divides."""
    edges = [edge for edge in _edges(question) if edge % HOUR]
    if not edges:
        return
    at = _table("edges", {"at": edges})
    fields = [getattr(ChargeRow, name) for name in FIELDS]
    divided = and_(
        ChargeRow.charge_period_start > at.c.at - HOUR,
        ChargeRow.charge_period_start < at.c.at,
        ChargeRow.charge_period_end > at.c.at,
        _IS_USAGE,
    )
    rows = db.execute(select(*fields).select_from(at.join(ChargeRow, divided)).where(*_whose(question)))
    for row in rows:
        charge = Charge(*row)
        for number, amounts in split_charge(question, charge):
            yield Part(question.key(_values(charge, question), number), charge.billing_currency, amounts)


def _accrued(charges: Iterable[Charge], question: Question) -> Iterator[Part]:
    for charge in charges:
        if _is_asked_for(charge, question):
            for number, amounts in split_charge(question, charge, accrued=True):
                yield Part(question.key(_values(charge, question), number), charge.billing_currency, amounts)


def _busy(db: Session, question: Question) -> Iterator[Part]:
    """Yield how long GPUs were at work, of sessions that are charged; an hour that a midnight divides is divided."""
    buckets = _buckets(question)
    inside = and_(
        _begins_in(UsageHourRow.starts_at, buckets), UsageHourRow.starts_at <= buckets.c.ending - HOUR, _OF_DEVICE
    )
    for number, busy, *key in _sum_busy(db, question, buckets.c.number, buckets.join(UsageHourRow, inside)):
        yield Part(question.key(key, number), "", Amounts(busy_ms=busy))
    hours = [edge // HOUR * HOUR for edge in _edges(question) if edge % HOUR]
    if hours:
        at = _table("hours", {"at": hours})
        source = at.join(UsageHourRow, and_(UsageHourRow.starts_at == at.c.at, _OF_DEVICE))
        for starts_at, busy, *key in _sum_busy(db, question, at.c.at, source):
            for number, part in question.cut(Amounts(busy_ms=busy), Period(starts_at, starts_at + HOUR)):
                yield Part(question.key(key, number), "", part)


def _sum_busy(db: Session, question: Question, by: Any, source: Any) -> Iterator[tuple[Any, ...]]:
    """Yield (`by`, milliseconds, *key) of hours of usage: summed by session first, which needs no look at sessions."""
    fields = _fields(question, _USAGE)
    busy = func.sum(UsageHourRow.busy_ms).label("busy_ms")
    sums = select(UsageHourRow.session_id, by.label("by"), busy).select_from(source)
    found = sums.group_by(UsageHourRow.session_id, by).subquery()
    rows = db.execute(
        select(found.c.by, func.sum(found.c.busy_ms), *fields)
        .select_from(found.join(SessionRow, SessionRow.session_id == found.c.session_id))
        .where(SessionRow.billable, *_whose(question, _USAGE))
        .group_by(found.c.by, *fields)
    )
    for number, milliseconds, *key in rows:
        yield number, None if milliseconds is None else int(milliseconds), *key


def _buckets(question: Question) -> CTE:
    periods = [bucket.period for bucket in question.buckets]
    return _table(
        "buckets",
        {
            "number": list(range(len(periods))),
            "start": [period.start for period in periods],
            "ending": [period.end for period in periods],
        },
    )


def _table(name: str, columns: dict[str, list[int]]) -> CTE:
    """A table of numbers that lives as long as a query."""
    types = [column(each, Integer if each == "number" else BigInteger) for each in columns]
    return sql_values(*types, name=name, literal_binds=True).data(list(zip(*columns.values(), strict=True))).cte()


def _begins_in(start: Any, buckets: CTE) -> ColumnElement[bool]:
    return and_(start >= buckets.c.start, start < buckets.c.ending)


def _edges(question: Question) -> list[int]:
    return sorted({edge for bucket in question.buckets for edge in (bucket.period.start, bucket.period.end)})


def _fields(question: Question, table: dict[Dimension, Any]) -> list[Any]:
    """The columns of the dimensions that are not of time."""
    return [table[each] for each in question.dimensions if each in table]


def _whose(question: Question, table: dict[Dimension, Any] = _LINE) -> list[ColumnElement[bool]]:
    wanted = {Dimension.USER: question.username, Dimension.GROUP: question.billing_group}
    return [table[each] == value for each, value in wanted.items() if value is not None]


def _is_asked_for(charge: Charge, question: Question) -> bool:
    return question.username in (None, charge.username) and question.billing_group in (None, charge.billing_group)


def _values(charge: Charge, question: Question) -> list[str]:
    return [getattr(charge, _LINE[each].key) for each in question.dimensions if each in _LINE]
