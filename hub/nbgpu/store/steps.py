"""Steps of the wall clock: each is taken out of the length of the sessions that ran across it.

Between two ticks the clock went on as before up to some instant, then from another one. From which of both an instant
of a session was read follows from where it lies. Where that can't be told, the shorter length is charged.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from nbgpu.store.schema import SessionRow

Undecided = Mapping[str, list[dict[str, Any]]]  # steps, as JSON, by session that was starting meanwhile


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the wall clock somewhere between two ticks; both instants allow for what a tick is late."""

    until: datetime  # the last instant that can have been read from the clock as it went before
    since: datetime  # the first by the clock as it goes now
    seconds: int  # forward is above 0

    @classmethod
    def between(cls, before: datetime, now: datetime, elapsed: timedelta, tolerance: timedelta) -> "Step":
        """Return the step between two ticks with so much real time between; of 0 s where there was none."""
        size = now - before - elapsed
        seconds = round(size.total_seconds()) if abs(size) >= tolerance else 0
        return cls(before + elapsed + tolerance, now - elapsed - tolerance, seconds)

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON has it."""
        return {"until": self.until.isoformat(), "since": self.since.isoformat(), "seconds": self.seconds}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Step":
        """Return a step from JSON."""
        return cls(
            datetime.fromisoformat(found["until"]), datetime.fromisoformat(found["since"]), int(found["seconds"])
        )

    def hide_in(self, session: SessionRow, newest: datetime) -> None:
        """Take the step out of a session that ran across it. What was noted of it before stays where it was."""
        if session.seen_at is None and not self.is_after(session.active_at, newest):
            return  # it began after the step
        if session.released_at is not None and self._is_before_end(session):
            return  # it ended before the step
        self.take_out(session)
        shift = timedelta(seconds=self.seconds)
        if session.seen_at is not None:
            session.seen_at += shift
        for slot in session.slots:
            if slot.lost_at is not None:
                slot.lost_at += shift
            if slot.released_at is not None and slot.released_at != session.released_at:
                slot.released_at += shift

    def take_out(self, session: SessionRow) -> None:
        """Take the step out of the length of a session of which nothing was noted before the step but its start."""
        session.clock_shift -= self.seconds
        session.posted_until = None  # all is looked at anew, once

    def is_after(self, start: datetime | None, newest: datetime) -> bool:
        """Whether the step came after a start. `newest` is the newest instant by the clock as it goes now.

        Where both can be: forward it came after, back before, which is the shorter session each time.
        """
        if start is None:
            return False
        return start <= self.until if self.seconds > 0 else not self.since <= start <= newest

    def _is_before_end(self, session: SessionRow) -> bool:
        """Whether a session ended before the step; where both can be, forward after it, back before it."""
        end, known = session.ended_at, session.seen_at or session.active_at
        if end is None or known is None:
            return False
        return end < self.since if self.seconds > 0 else known <= end


def hide(step: Step, sessions: Iterable[SessionRow], newest: datetime) -> list[str]:
    """Take a step out of all sessions that ran across it; return those of which can't be told yet: they start."""
    starting: list[str] = []
    for session in sessions:
        if session.active_at is not None or session.seen_at is not None:
            step.hide_in(session, newest)
        elif session.released_at is None:
            starting.append(session.session_id)
    return starting


def decide(db: Session, undecided: Undecided, newest: datetime) -> dict[str, list[dict[str, Any]]]:
    """Take earlier steps out of those sessions whose start is known by now; return what is still undecided."""
    left: dict[str, list[dict[str, Any]]] = {}
    for session_id, steps in undecided.items():
        session = db.get(SessionRow, session_id)
        if session is None:
            continue
        if session.active_at is None and session.released_at is None:
            left[session_id] = steps
        for step in map(Step.from_json, steps):
            if step.is_after(session.active_at, newest):
                step.take_out(session)
    return left
