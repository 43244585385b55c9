"""Statements out of the database: the ledger summed by SQL over an index of time, what is not posted yet beside it.

A line of usage is at most an hour long and ends at a full hour of UTC at the latest (`core.ledger`), so that a midnight
that is no full hour divides only lines that began within the hour before: these alone are read one by one.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Engine, Select, and_, bindparam, case, cast, func, or_, select
from sqlalchemy.orm import Session

from nbgpu.core.ledger import Charge, ChargeCategory
from nbgpu.core.periods import HOUR, Period
from nbgpu.core.statement import Amounts, Dimension, Part, Question, merge, split_charge
from nbgpu.store.ledger import FIELDS, batches
from nbgpu.store.metering import accrued_in
from nbgpu.store.schema import ChargeRow, SessionRow
from nbgpu.store.usage_schema import UsageHourRow
from nbgpu.store.work import freeze, retried, unit_of_work

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
_START, _END, _SHARE = (bindparam(name, type_=BigInteger) for name in ("bucket_start", "bucket_end", "share"))
_VALUES = (
    ChargeRow.consumed_seconds,
    case((ChargeRow.resource_id == "", ChargeRow.consumed_seconds), else_=0),
    ChargeRow.billed_cost,
)
_IS_USAGE = ChargeRow.charge_category == ChargeCategory.USAGE.value


class SqlStatements:
    """Statements over a database; safe to use from many threads and processes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @retried
    def read(self, question: Question, now: datetime) -> tuple[Part, ...]:
        """Return a statement's lines as of one instant; sessions that run are charged up to `now`."""
        with unit_of_work(self._engine, reads_only=True) as db:
            freeze(db)
            return merge(
                [
                    *_posted(db, question),
                    *_straddling(db, question),
                    *_accrued(accrued_in(db, now, *_running_of(question)), question),
                    *(_busy if question.username is None else _busy_of_one)(db, question),
                ]
            )

    def charges(self, question: Question, now: datetime) -> Iterator[tuple[Charge, bool]]:
        """Yield the single lines that begin in the question's time, each with whether it is posted, those first."""
        query = (
            select(*(getattr(ChargeRow, name) for name in FIELDS))
            .where(_begins_in(ChargeRow.charge_period_start), *_whose(question))
            .order_by(ChargeRow.charge_period_start, ChargeRow.id)
            .execution_options(yield_per=1000)
        )
        period = question.period
        with unit_of_work(self._engine, reads_only=True) as db:
            freeze(db)
            for row in db.execute(query, _bounds(period)):
                yield Charge(*row), True
            for charge in accrued_in(db, now, *_running_of(question)):
                if _is_asked_for(charge, question) and period.start <= charge.charge_period_start < period.end:
                    yield charge, False

    @retried
    def knows(self, username: str) -> bool:
        """Return whether anybody of that name ever had a session, or money of theirs was counted."""
        with unit_of_work(self._engine, reads_only=True) as db:
            return any(
                db.scalar(select(column).where(column == username).limit(1)) is not None
                for column in (SessionRow.username, ChargeRow.username)
            )

    @retried
    def find_unknown(self, usernames: Iterable[str]) -> frozenset[str]:
        """Return those of many that `knows` does not know."""
        asked = frozenset(usernames)
        found: set[str] = set()
        with unit_of_work(self._engine, reads_only=True) as db:
            for part in batches(asked):
                for column in (SessionRow.username, ChargeRow.username):
                    found.update(db.scalars(select(column).where(column.in_(part)).distinct()))
        return asked - found


def _running_of(question: Question) -> tuple[ColumnElement[bool], ...]:
    """Whose sessions can have cost what is asked for and not posted yet."""
    return (SessionRow.username == question.username,) if question.username is not None else ()


def _posted(db: Session, question: Question) -> Iterator[Part]:
    """Yield the sums of lines that lie within a bucket."""
    within = or_(~_IS_USAGE, ChargeRow.charge_period_end <= _END)
    query = _sum_lines(question, [func.sum(value) for value in _VALUES]).where(within)
    for number, bucket in enumerate(question.buckets):
        for currency, guessed, *row in db.execute(query, _bounds(bucket.period)):
            yield Part(question.key(row[3:], number), currency, _to_amounts(row[:3], guessed))


def _straddling(db: Session, question: Question) -> Iterator[Part]:
    """Yield the parts of lines that a midnight divides, which is the end of the bounds: SQL divides as Amounts do."""
    share, length = _END - ChargeRow.charge_period_start, ChargeRow.charge_period_end - ChargeRow.charge_period_start
    sums = [func.sum(value) for value in (*_VALUES, *(value * share // length for value in _VALUES))]
    query = _sum_lines(question, sums).where(_IS_USAGE, ChargeRow.charge_period_end > _END)
    for edge in _divided_hours(question):
        for currency, guessed, *row in db.execute(query, _bounds(Period(edge - HOUR, edge))):
            after = [whole - before for whole, before in zip(row[:3], row[3:6], strict=True)]
            for instant, part in ((edge - 1, row[3:6]), (edge, after)):
                number = question.find_bucket(instant)
                if number is not None:
                    yield Part(question.key(row[6:], number), currency, _to_amounts(part, guessed))


def _sum_lines(question: Question, sums: list[Any]) -> Select[Any]:
    """Sums of lines that begin between the bounds: (currency, whether one is estimated, *sums, *key)."""
    fields = _fields(question, _LINE)
    return (
        select(ChargeRow.billing_currency, func.max(case((ChargeRow.estimated, 1), else_=0)), *sums, *fields)
        .where(_begins_in(ChargeRow.charge_period_start), *_whose(question))
        .group_by(*fields, ChargeRow.billing_currency)
    )


def _to_amounts(values: Sequence[Any], guessed: int) -> Amounts:
    """Return amounts of what `_VALUES` are; PostgreSQL gives sums as decimals."""
    seconds, server, cost = map(int, values)
    return Amounts(server_seconds=server, gpu_seconds=seconds - server, cost=cost, estimated=bool(guessed))


def _accrued(charges: Iterable[Charge], question: Question) -> Iterator[Part]:
    for charge in charges:
        if _is_asked_for(charge, question):
            for number, amounts in split_charge(question, charge, accrued=True):
                yield Part(question.key(_values(charge, question), number), charge.billing_currency, amounts)


def _busy(db: Session, question: Question) -> Iterator[Part]:
    """Yield how long GPUs were at work, of sessions that are charged; an hour that a midnight divides is divided."""
    query = _busy_query(question)
    for number, bucket in enumerate(question.buckets):
        hours = Period(bucket.period.start, bucket.period.end - HOUR + 1)
        for whole, _, *values in db.execute(query, _bounds(hours)):
            yield Part(question.key(values, number), "", Amounts(busy_ms=int(whole)))
    for edge in _divided_hours(question):
        hour = edge // HOUR * HOUR
        for whole, before, *values in db.execute(query, _bounds(Period(hour, hour + 1), edge - hour)):
            for instant, part in ((edge - 1, before), (edge, whole - before)):
                found = question.find_bucket(instant)
                if found is not None:
                    yield Part(question.key(values, found), "", Amounts(busy_ms=int(part)))


def _busy_of_one(db: Session, question: Question) -> Iterator[Part]:
    """Yield the same of one user: all their hours are read at once. By the bucket it is nine times as long for a year.

    Hours are divided by the session, as the query of many does it.
    """
    fields, period = _fields(question, _USAGE), question.period
    query = (
        select(UsageHourRow.starts_at, func.sum(UsageHourRow.busy_ms), *fields)
        .join(SessionRow, SessionRow.session_id == UsageHourRow.session_id)
        .where(*_whose(question, _USAGE), SessionRow.billable, UsageHourRow.device_uuid != "")
        .where(UsageHourRow.starts_at > period.start - HOUR, UsageHourRow.starts_at < period.end)
        .where(UsageHourRow.busy_ms.is_not(None))
        .group_by(UsageHourRow.starts_at, UsageHourRow.session_id, *fields)
    )
    edges = {edge // HOUR * HOUR: edge for edge in _divided_hours(question)}
    for hour, total, *values in db.execute(query):
        whole, edge = int(total), edges.get(hour, hour)
        before = whole * (edge - hour) // HOUR
        for instant, part in [(edge - 1, before)] * (edge > hour) + [(edge, whole - before)]:
            found = question.find_bucket(instant)
            if found is not None:
                yield Part(question.key(values, found), "", Amounts(busy_ms=part))


def _busy_query(question: Question) -> Select[Any]:
    """Sums of hours that begin between the bounds: (whole, the share of each, *key), where any was reported."""
    fields, whose = _fields(question, _USAGE), _whose(question, _USAGE)
    busy = cast(func.sum(UsageHourRow.busy_ms), BigInteger)
    session_id = UsageHourRow.session_id
    hours = (
        select(session_id.label("session_id"), busy.label("whole"), (busy * _SHARE // HOUR).label("part"))
        .where(_begins_in(UsageHourRow.starts_at), UsageHourRow.device_uuid != "")
        .group_by(session_id)
    )
    if whose:  # few sessions: their hours are found by their ids
        hours = hours.where(UsageHourRow.session_id.in_(select(SessionRow.session_id).where(*whose)))
    found = hours.subquery()
    # An outer join: of an inner one SQLite would begin with the sessions, all there ever were.
    return (
        select(func.sum(found.c.whole), func.sum(found.c.part), *fields)
        .select_from(found.outerjoin(SessionRow, SessionRow.session_id == found.c.session_id))
        .where(func.coalesce(SessionRow.billable, False))
        .group_by(*fields)
        .having(func.sum(found.c.whole).is_not(None))
    )


def _begins_in(start: Any) -> ColumnElement[bool]:
    """Whether something begins between the bounds of a query."""
    return and_(start >= _START, start < _END)


def _bounds(period: Period, share: int = 0) -> dict[str, int]:
    return {"bucket_start": period.start, "bucket_end": period.end, "share": share}


def _divided_hours(question: Question) -> list[int]:
    """Return the ends of buckets that lie within an hour of UTC."""
    ends = {end for bucket in question.buckets for end in (bucket.period.start, bucket.period.end)}
    return sorted(end for end in ends if end % HOUR)


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
