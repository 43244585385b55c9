"""Rows of idleness, read and made."""

from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session, aliased, selectinload

from nbgpu.core.activity import Signal, Track, Tracks
from nbgpu.core.authorize import Cause
from nbgpu.core.culling import Extension, Forecast, Verdict
from nbgpu.core.idle_policy import REPORTS_EVERY, IdlePolicy, IdleSite
from nbgpu.core.leases import ServerRef
from nbgpu.core.periods import to_instant, to_seconds
from nbgpu.core.stops import IDLE_CAUSES, Move, PlannedStop, Stop
from nbgpu.store.idle_schema import IdleRow
from nbgpu.store.schema import SessionRow

SETTLE = REPORTS_EVERY  # seconds after a stop's time from which on all signals up to it were told
MOVE_TRIES = 600  # seconds after a server was stopped that it is tried to start it with another flavor
OPEN = (SessionRow.released_at.is_(None), SessionRow.active_at.is_not(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleEntry:
    """What a look found of one session."""

    session_id: str
    tracks: Tracks
    verdict: Verdict
    stop: Stop | None


def read_due(db: Session, site: IdleSite, now: int, *where: ColumnElement[bool]) -> list[PlannedStop]:
    """Return the stops for idleness that are to be done now, of those that fit.

    What was told up to the stop's time must have been judged; the rule must still be there, and it be no quiet hour.
    """
    is_due = (IdleRow.stop_at + SETTLE <= IdleRow.judged_at, IdleRow.judged_at >= now - site.fresh)
    found = []
    for row, idle in read(db, *OPEN, *is_due, *where):
        policy, planned = policy_of(site, row), to_planned(row, idle)
        if policy is not None and planned is not None and policy.leave_quiet_hours(now, site.zone) <= now:
            found.append(planned)
    return found


def read_moves(db: Session, now: int) -> tuple[PlannedStop, ...]:
    """Return the sessions that were stopped to go on with another flavor, of servers that were not started since."""
    newer = aliased(SessionRow)
    started_since = (
        select(newer.session_id)
        .where(
            newer.username == SessionRow.username,
            newer.servername == SessionRow.servername,
            newer.created_at > SessionRow.created_at,
        )
        .exists()
    )
    moved = (
        SessionRow.released_at >= to_instant(now - MOVE_TRIES),
        SessionRow.stop_at <= SessionRow.released_at,
        SessionRow.stop_cause == Cause.GPU_IDLE,
        SessionRow.release_reason == "stopped",
        IdleRow.move_to.is_not(None),
        ~started_since,
    )
    planned = (to_planned(row, idle) for row, idle in read(db, *moved))
    return tuple(each for each in planned if each is not None and each.move is not None)


def read_stops(db: Session, site: IdleSite, now: int) -> dict[str, PlannedStop]:
    """Return the decided stops for idleness that hold, by session."""
    decided = (IdleRow.stop_at.is_not(None), IdleRow.judged_at >= now - site.fresh)
    found = {}
    for row, idle in read(db, *OPEN, *decided):
        policy = policy_of(site, row)
        planned = to_planned(row, idle, policy.warn) if policy is not None else None
        if planned is not None:
            found[row.session_id] = planned
    return found


def policy_of(site: IdleSite, row: SessionRow) -> IdlePolicy | None:
    """Return what holds for a session, by the groups that its person had at its start."""
    return site.find_policy(row.username, row.user_groups, row.flavor, has_gpu=bool(row.slots))


def to_planned(row: SessionRow, idle: IdleRow | None, warn: tuple[int, ...] = ()) -> PlannedStop | None:
    """Return the stop for idleness that is decided."""
    stop = decided_stop(idle)
    if idle is None or stop is None:
        return None
    move = Move(idle.move_to, row.image) if idle.move_to is not None and stop.cause is Cause.GPU_IDLE else None
    return PlannedStop(row.session_id, ServerRef(row.username, row.servername), stop, warn, move)


def read(db: Session, *where: ColumnElement[bool]) -> list[tuple[SessionRow, IdleRow | None]]:
    """Return sessions with what is found of them, oldest first."""
    query = (
        select(SessionRow, IdleRow)
        .outerjoin(IdleRow, IdleRow.session_id == SessionRow.session_id)
        .where(*where)
        .options(selectinload(SessionRow.slots))
        .order_by(SessionRow.created_at, SessionRow.session_id)
    )
    return [(row, idle) for row, idle in db.execute(query)]


def read_one(
    db: Session, *where: ColumnElement[bool], for_update: bool = False
) -> tuple[SessionRow, IdleRow | None] | None:
    """Return the newest session that ever ran, of those that fit."""
    query = (
        select(SessionRow)
        .where(SessionRow.active_at.is_not(None), *where)
        .order_by(SessionRow.created_at.desc())
        .limit(1)
        .options(selectinload(SessionRow.slots))
    )
    row = db.scalars(query.with_for_update() if for_update else query).first()
    return (row, db.get(IdleRow, row.session_id)) if row is not None else None


def to_row(entry: IdleEntry, now: int) -> dict[str, object]:
    """Return the columns of what a look found."""
    found, stop = entry.verdict.forecast, entry.stop
    return {
        "session_id": entry.session_id,
        "judged_at": now,
        "tracks": {signal: asdict(track) for signal, track in entry.tracks.items()},
        "cause": found.cause if found else None,
        "since": found.since if found else None,
        "limit_seconds": found.limit if found else None,
        "forecast_at": found.at if found else None,
        "move_to": found.move_to if found else None,
        "stop_at": stop.at if stop else None,
        "stop_cause": stop.cause if stop else None,
    }


def to_tracks(idle: IdleRow | None) -> dict[Signal, Track]:
    """Return the signals' tracks."""
    return {Signal(signal): Track(**track) for signal, track in (idle.tracks if idle else {}).items()}


def to_extension(idle: IdleRow | None) -> Extension:
    """Return what its person asked for."""
    if idle is None:
        return Extension()
    return Extension(until=idle.extended_until, used=idle.extended_seconds, asked_at=idle.extended_at)


def to_forecast(idle: IdleRow) -> Forecast | None:
    """Return what was forecast at the last look."""
    if idle.cause is None or idle.since is None or idle.limit_seconds is None or idle.forecast_at is None:
        return None
    return Forecast(
        cause=Cause(idle.cause),
        since=idle.since,
        limit=idle.limit_seconds,
        at=idle.forecast_at,
        move_to=idle.move_to,
    )


def decided_stop(idle: IdleRow | None) -> Stop | None:
    """Return the stop that is decided."""
    if idle is None or idle.stop_at is None or idle.stop_cause is None:
        return None
    return Stop(idle.stop_at, Cause(idle.stop_cause))


def stop_of(row: SessionRow, idle: IdleRow | None) -> Stop | None:
    """Return the stop that comes first; of idleness what the watch says, which is newer than the session's row."""
    found = [stop for stop in (decided_stop(idle), _other_stop(row)) if stop is not None]
    return min(found, key=lambda each: each.at, default=None)


def _other_stop(row: SessionRow) -> Stop | None:
    if row.stop_at is None or row.stop_cause is None or Cause(row.stop_cause) in IDLE_CAUSES:
        return None
    return Stop(to_seconds(row.stop_at), Cause(row.stop_cause))


def until(row: SessionRow) -> datetime | None:
    """Return when a session has run as long as it may."""
    if row.active_at is None or row.authorized_seconds is None:
        return None
    return to_instant(to_seconds(row.active_at) - row.clock_shift + row.authorized_seconds)
