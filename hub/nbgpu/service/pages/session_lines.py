"""Sessions as the lines of a table: whose, on what, how long, for how much, and what is found of them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from nbgpu.core.flavors import Flavor
from nbgpu.core.idle_words import describe_forecast
from nbgpu.core.session_list import FoundSession
from nbgpu.core.session_status import describe_last
from nbgpu.core.stops import Move, describe_stop
from nbgpu.core.texts import Text
from nbgpu.service.pages.rows import STATES, find_state
from nbgpu.spawner.endings import explain_end

_ENDED = Text("ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One session."""

    session_id: str
    user: str
    server: str
    flavor: str
    devices: int
    started: datetime
    ran: timedelta
    cost: int | None  # micro-units; None where it is not known
    is_running: bool
    state: Text
    detail: Text | None  # why it ended, or what happens to it

    @property
    def ran_shown(self) -> timedelta:
        """How long it ran as people read it: below an hour with seconds, else in whole minutes."""
        return self.ran if self.ran < timedelta(hours=1) else timedelta(minutes=round(self.ran / timedelta(minutes=1)))


def build_line(
    found: FoundSession, flavors: Mapping[str, Flavor], costs: Mapping[str, int], *, now: datetime, zone: tzinfo
) -> Line:
    """Return the line of a session."""
    view = found.view
    flavor = flavors.get(view.flavor)
    ran = (view.ended_at or now) - view.started_at
    is_running = view.ended_at is None
    return Line(
        session_id=view.session_id,
        user=view.server.username,
        server=view.server.servername,
        flavor=flavor.display_name if flavor is not None else view.flavor,
        devices=len(view.devices),
        started=view.started_at,
        ran=timedelta(seconds=max(0, round(ran.total_seconds()))),
        cost=costs.get(view.session_id),
        is_running=is_running,
        state=STATES[find_state(view)] if is_running else _ENDED,
        detail=_tell_running(found, zone) if is_running else _tell_end(found, zone),
    )


def _tell_running(found: FoundSession, zone: tzinfo) -> Text | None:
    view = found.view
    if view.stop is not None:
        return describe_stop(view.stop, zone, Move(view.moves_to, view.image) if view.moves_to is not None else None)
    return describe_forecast(view.verdict, zone) if view.verdict is not None else None


def _tell_end(found: FoundSession, zone: tzinfo) -> Text:
    return describe_last(found.view, zone) or explain_end(found.reason or "").why
