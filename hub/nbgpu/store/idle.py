"""Idleness, kept: what the watch found of each running session, and how much longer its person asked for."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, case
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from nbgpu.core.activity import Tracks
from nbgpu.core.culling import Extension, Look, State, Verdict, extend, judge, left_to_extend
from nbgpu.core.errors import NotExtended
from nbgpu.core.idle_policy import IdlePolicy, IdleSite
from nbgpu.core.idle_view import IdleView
from nbgpu.core.leases import ServerRef
from nbgpu.core.periods import to_seconds
from nbgpu.core.ports import Clock
from nbgpu.core.stops import IDLE_CAUSES, PlannedStop, Stop, why_it_stops
from nbgpu.core.texts import Text
from nbgpu.core.units import render_span
from nbgpu.store.book import count_held
from nbgpu.store.clock import utc_now
from nbgpu.store.idle_rows import (
    OPEN,
    IdleEntry,
    decided_stop,
    policy_of,
    read,
    read_due,
    read_one,
    stop_of,
    to_extension,
    to_forecast,
    to_row,
    to_tracks,
    until,
)
from nbgpu.store.idle_schema import IdleRow
from nbgpu.store.schema import AuditRow, SessionRow
from nbgpu.store.work import retried, unit_of_work


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A running session that can be idle, with what was known of it at the last look."""

    session_id: str
    server: ServerRef
    flavor: str
    has_gpu: bool
    devices: frozenset[str]  # that work
    policy: IdlePolicy
    tracks: Tracks
    extension: Extension
    decided: Stop | None


class SqlIdle:
    """Idleness in the database; safe to use from many threads and processes."""

    def __init__(self, engine: Engine, site: IdleSite, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._site = site
        self._clock = clock
        self._insert = postgresql.insert if engine.dialect.name == "postgresql" else sqlite.insert

    # The watch

    @retried
    def watched(self) -> tuple[Watched, ...]:
        """Return the running sessions for which a policy holds."""
        with unit_of_work(self._engine, reads_only=True) as db:
            found = (self._to_watched(row, idle) for row, idle in read(db, *OPEN))
            return tuple(each for each in found if each is not None)

    def write(self, entries: Iterable[IdleEntry], now: int) -> None:
        """Take the place of what was found before, in one transaction."""
        rows = [to_row(entry, now) for entry in entries]
        if not rows:
            return
        statement = self._insert(IdleRow)
        values: dict[str, Any] = {name: statement.excluded[name] for name in rows[0] if name != "session_id"}
        for name in ("stop_at", "stop_cause"):  # an extension that came after the look has the last word
            is_put_off = IdleRow.extended_until > statement.excluded["stop_at"]
            values[name] = case((is_put_off, None), else_=statement.excluded[name])
        with unit_of_work(self._engine) as db:
            db.execute(statement.on_conflict_do_update(index_elements=["session_id"], set_=values), rows)

    @retried
    def due(self) -> tuple[PlannedStop, ...]:
        """Return the sessions that are to be stopped now for being idle."""
        with unit_of_work(self._engine, reads_only=True) as db:
            found = read_due(db, self._site, to_seconds(self._clock()), IdleRow.move_to.is_(None))
            return tuple(found)

    # What is shown

    @retried
    def running(self, username: str | None = None) -> Sequence[IdleView]:
        """Return the running sessions, of one user or of everybody, by user and server."""
        whose = () if username is None else (SessionRow.username == username,)
        with unit_of_work(self._engine, reads_only=True) as db:
            views = [self._to_view(row, idle) for row, idle in read(db, *OPEN, *whose)]
        return sorted(views, key=lambda each: each.server)

    @retried
    def find(self, session_id: str) -> IdleView | None:
        """Return a session, running or ended; None where there is none that ever ran."""
        with unit_of_work(self._engine, reads_only=True) as db:
            row = read_one(db, SessionRow.session_id == session_id)
            return self._to_view(*row) if row is not None else None

    @retried
    def find_all(self, session_ids: Collection[str]) -> dict[str, IdleView]:
        """Return sessions by their ids, running or ended; those that never ran are left out."""
        wanted = (SessionRow.session_id.in_(list(session_ids)), SessionRow.active_at.is_not(None))
        with unit_of_work(self._engine, reads_only=True) as db:
            return {row.session_id: self._to_view(row, idle) for row, idle in read(db, *wanted)}

    @retried
    def newest(self, server: ServerRef) -> IdleView | None:
        """Return a server's newest session that ever ran."""
        whose = (SessionRow.username == server.username, SessionRow.servername == server.servername)
        with unit_of_work(self._engine, reads_only=True) as db:
            row = read_one(db, *whose)
            return self._to_view(*row) if row is not None else None

    # What is asked for

    def extend(self, session_id: str, seconds: int, *, by: str, as_admin: bool) -> IdleView:
        """Keep a running session from being stopped as idle for so much longer; 0 is what one click gives.

        Its person may have so much in all, an administrator any. Raises NotExtended: what may be had.
        """
        now = self._clock()
        with unit_of_work(self._engine) as db:
            row, idle = self._open(db, session_id)
            view = self._to_view(row, idle)
            policy, verdict = view.policy, view.verdict
            if policy is None:
                raise NotExtended(Text("Nothing stops this server for being idle: there is nothing to extend."))
            if view.stop is not None and view.stop.cause not in IDLE_CAUSES:
                raise NotExtended(
                    Text("It is stopped because %(why)s; that can't be extended.", why=why_it_stops(view.stop.cause))
                )
            asked = seconds or policy.extend
            verdict = verdict or Verdict(state=State.UNKNOWN, findings=(), forecast=None)
            if not as_admin:
                asked = _fit(asked, left_to_extend(verdict, policy, view.extension), is_default=not seconds)
            found = extend(verdict, view.extension, view.stop, seconds=asked, now=to_seconds(now))
            self._write_extension(db, session_id, found)
            db.add(_audit(now, by, "idle.extend", view.server, f"session {session_id}, {asked} s"))
            db.flush()
            return self._to_view(*self._open(db, session_id))

    def extend_time_limit(self, session_id: str, seconds: int, *, by: str) -> IdleView:
        """Let a running session run longer than its flavor's time limit. Raises NotExtended where it has none."""
        with unit_of_work(self._engine) as db:
            row, _ = self._open(db, session_id)
            if row.time_limit is None:
                raise NotExtended(Text("This server has no time limit of its flavor: there is nothing to extend."))
            row.time_limit += seconds
            server = ServerRef(row.username, row.servername)
            db.add(_audit(self._clock(), by, "time_limit.extend", server, f"session {session_id}, {seconds} s"))
            db.flush()
            return self._to_view(*self._open(db, session_id))

    def _open(self, db: Session, session_id: str) -> tuple[SessionRow, IdleRow | None]:
        found = read_one(db, SessionRow.session_id == session_id, *OPEN, for_update=True)
        if found is None:
            raise NotExtended(Text("This server does not run any more: there is nothing to extend."))
        return found

    def _write_extension(self, db: Session, session_id: str, found: Extension) -> None:
        """The stop that was decided is called off; the watch decides anew."""
        values = {
            "extended_until": found.until,
            "extended_seconds": found.used,
            "extended_at": found.asked_at,
            "stop_at": None,
            "stop_cause": None,
        }
        statement = self._insert(IdleRow).values(session_id=session_id, **values)
        db.execute(statement.on_conflict_do_update(index_elements=["session_id"], set_=values))
        db.expire_all()

    def _to_watched(self, row: SessionRow, idle: IdleRow | None) -> Watched | None:
        policy = policy_of(self._site, row)
        if policy is None:
            return None
        return Watched(
            session_id=row.session_id,
            server=ServerRef(row.username, row.servername),
            flavor=row.flavor,
            has_gpu=count_held(row) > 0,
            devices=frozenset(
                each.device_uuid for each in row.slots if each.lost_at is None and each.released_at is None
            ),
            policy=policy,
            tracks=to_tracks(idle),
            extension=to_extension(idle),
            decided=decided_stop(idle),
        )

    def _to_view(self, row: SessionRow, idle: IdleRow | None) -> IdleView:
        policy = policy_of(self._site, row)
        ended = row.released_at
        return IdleView(
            session_id=row.session_id,
            server=ServerRef(row.username, row.servername),
            flavor=row.flavor,
            image=row.image,
            devices=tuple(slot.device_uuid for slot in row.slots),
            groups=tuple(row.user_groups),
            started_at=row.active_at or row.created_at,
            until=until(row),
            time_limit=row.time_limit,
            price_per_hour=row.price_per_hour,
            stop=stop_of(row, idle),
            policy=policy,
            verdict=self._judge(row, idle, policy) if policy is not None and idle is not None else None,
            extension=to_extension(idle),
            ended_at=ended,
        )

    def _judge(self, row: SessionRow, idle: IdleRow, policy: IdlePolicy) -> Verdict:
        """What the signals say now; of a session that ended, what was found last."""
        ended = row.released_at is not None
        look = Look(
            now=idle.judged_at if ended else to_seconds(self._clock()),
            stale=self._site.stale,
            has_gpu=bool(row.slots) if ended else count_held(row) > 0,
            zone=self._site.zone,
            extension=to_extension(idle),
        )
        verdict = judge(to_tracks(idle), policy, look)
        return replace(verdict, forecast=to_forecast(idle)) if ended else verdict


def _fit(asked: int, left: int, *, is_default: bool) -> int:
    """Return what is given of what was asked for. Raises NotExtended."""
    if left <= 0 or (asked > left and not is_default):
        raise NotExtended(
            Text(
                "It can be extended by %(left)s more, not by %(asked)s. Work in it, or ask an administrator.",
                left=render_span(timedelta(seconds=left)),
                asked=render_span(timedelta(seconds=asked)),
            )
        )
    return min(asked, left)


def _audit(at: datetime, actor: str, action: str, server: ServerRef, detail: str) -> AuditRow:
    return AuditRow(recorded_at=at, actor=actor[:255], action=action, subject=str(server)[:512], detail=detail)
