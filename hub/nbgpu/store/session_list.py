"""Lists of sessions, running and ended, a page at a time: each page begins where the last one ended, by value.

What is in order by a column, by what is posted for good or by how long an ended one ran is sorted by the database; what
changes while one looks is sorted here.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Engine,
    String,
    cast,
    extract,
    false,
    func,
    literal,
    select,
    true,
    tuple_,
)
from sqlalchemy.orm import Session

from nbgpu.core.periods import to_instant, to_seconds
from nbgpu.core.ports import Clock
from nbgpu.core.session_list import FoundSession, Place, SessionPage, SessionQuestion, Wanted
from nbgpu.store.clock import utc_now
from nbgpu.store.idle import SqlIdle
from nbgpu.store.metering import accrued_in
from nbgpu.store.schema import ChargeRow, SessionRow
from nbgpu.store.work import freeze, retried, unit_of_work

_COLUMNS: dict[str, Any] = {"user": SessionRow.username, "flavor": SessionRow.flavor}  # those that are sorted by SQL
_POSTED: Any = cast(
    func.coalesce(
        select(func.sum(ChargeRow.billed_cost)).where(ChargeRow.session_id == SessionRow.session_id).scalar_subquery(),
        0,
    ),
    BigInteger,
)
_RAN: Any = cast(extract("epoch", SessionRow.released_at), BigInteger) - cast(
    extract("epoch", SessionRow.active_at), BigInteger
)
# What is computed: as the database knows it, of which sessions it does, and of which it is sorted here.
_COMPUTED: dict[str, tuple[Any, ColumnElement[bool], ColumnElement[bool]]] = {
    "cost": (_POSTED, SessionRow.settled == true(), SessionRow.settled == false()),
    "ran": (_RAN, SessionRow.released_at.is_not(None), SessionRow.released_at.is_(None)),
}
_NEEDED = (SessionRow.session_id, SessionRow.created_at, SessionRow.release_reason)
_SECOND = 1_000_000  # microseconds

Entry = tuple[Place, str | None]  # with the reason of its end
Conditions = Sequence[ColumnElement[bool]]


class SqlSessionList:
    """The sessions of a database; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, idle: SqlIdle, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._idle = idle
        self._clock = clock

    @retried
    def find(
        self, question: SessionQuestion, *, count: int, edge: Place | None = None, backwards: bool = False
    ) -> SessionPage:
        """Return `count` sessions at most, beyond `edge`; backwards those before it. They are in order either way."""
        with unit_of_work(self._engine, reads_only=True) as db:
            freeze(db)
            total = db.scalar(select(func.count()).select_from(SessionRow).where(*_conditions(question))) or 0
            found = self._find(db, question, count + 1, edge, down=question.order.is_down != backwards)
        shown = found[:count]
        if backwards:
            shown.reverse()
        views = self._idle.find_all([place.session_id for place, _ in shown])
        rows = (FoundSession(place, views[place.session_id], reason) for place, reason in shown)
        return SessionPage(tuple(rows), total, is_more=len(found) > count)

    def _find(
        self, db: Session, question: SessionQuestion, count: int, edge: Place | None, *, down: bool
    ) -> list[Entry]:
        """Return sessions in their order: the database sorts those that have no more to change."""
        by, wanted = question.order.by, list(_conditions(question))
        if by not in _COMPUTED:
            return _select(db, _COLUMNS.get(by), wanted, count, edge, down=down)
        known, is_known, is_open = _COMPUTED[by]
        settled = _select(db, known, [*wanted, is_known], count, edge, down=down)
        others = self._sort(db, by, [*wanted, is_open], count, edge, down=down)
        return sorted([*settled, *others], key=lambda each: _key(each[0]), reverse=down)[:count]

    def _sort(
        self, db: Session, by: str, wanted: Conditions, count: int, edge: Place | None, *, down: bool
    ) -> list[Entry]:
        """Return sessions in an order of what is computed."""
        now = self._clock()
        values = _costs(db, wanted, now) if by == "cost" else None
        query = select(*_NEEDED, SessionRow.active_at, SessionRow.released_at).where(*wanted)
        places: list[Entry] = []
        for session_id, created, reason, began, ended in db.execute(query):
            value = _length(began, ended or now) if values is None else values.get(session_id, 0)
            places.append((Place(value, _to_micro(created), session_id), reason))
        beyond = (
            each
            for each in places
            if edge is None or (_key(each[0]) < _key(edge) if down else _key(each[0]) > _key(edge))
        )
        return sorted(beyond, key=lambda each: _key(each[0]), reverse=down)[:count]


def _select(db: Session, by: Any, wanted: Conditions, count: int, edge: Place | None, *, down: bool) -> list[Entry]:
    """Return sessions in an order of columns; without one in that of their start."""
    columns = [*([by] if by is not None else []), SessionRow.created_at, SessionRow.session_id]
    query = select(*_NEEDED, by if by is not None else literal("")).where(*wanted)
    if edge is not None:
        values = [*([edge.value] if by is not None else []), _from_micro(edge.created), edge.session_id]
        limit = tuple_(*(literal(value, each.type) for value, each in zip(values, columns, strict=True)))
        query = query.where(tuple_(*columns) < limit if down else tuple_(*columns) > limit)
    query = query.order_by(*(each.desc() if down else each for each in columns)).limit(count)
    return [
        (Place(value, _to_micro(made), session_id), reason) for session_id, made, reason, value in db.execute(query)
    ]


def _conditions(question: SessionQuestion) -> Iterator[ColumnElement[bool]]:
    row = SessionRow
    yield row.active_at.is_not(None)
    if question.wanted is not Wanted.ALL:
        is_running = row.released_at.is_(None)
        yield is_running if question.wanted is Wanted.RUNNING else ~is_running
    same = {row.username: question.username, row.servername: question.servername, row.flavor: question.flavor}
    yield from (column == value for column, value in same.items() if value is not None)
    if question.text:
        yield (row.username + "/" + row.servername + " " + row.flavor).icontains(question.text, autoescape=True)
    if question.group is not None:  # as it stands in the JSON; SQLite's LIKE would take "ML" for "ml"
        groups = cast(row.user_groups, String)
        yield func.replace(groups, json.dumps(question.group), "") != groups
    if question.since is not None:
        yield row.created_at >= question.since
    if question.before is not None:
        yield row.created_at < question.before


def _costs(db: Session, wanted: Conditions, now: datetime) -> dict[str, int]:
    """Return what sessions have cost so far, in micro-units: what is posted, and what is not yet."""
    posted = (
        select(ChargeRow.session_id, func.sum(ChargeRow.billed_cost))
        .join(SessionRow, SessionRow.session_id == ChargeRow.session_id)
        .where(*wanted)
        .group_by(ChargeRow.session_id)
    )
    found = {session_id: int(cost) for session_id, cost in db.execute(posted)}
    for charge in accrued_in(db, now, *wanted):
        found[charge.session_id] = found.get(charge.session_id, 0) + charge.billed_cost
    return found


def _key(place: Place) -> tuple[int, int, str]:
    return int(place.value), place.created, place.session_id


def _length(began: datetime | None, ended: datetime) -> int:
    """Return how many seconds a session ran."""
    if began is None:
        return 0
    return max(0, round((ended - began).total_seconds()))


def _to_micro(instant: datetime) -> int:
    return to_seconds(instant) * _SECOND + instant.microsecond


def _from_micro(micro: int) -> datetime:
    seconds, rest = divmod(micro, _SECOND)
    return to_instant(seconds) + timedelta(microseconds=rest)
