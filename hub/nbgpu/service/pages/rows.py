"""The page of running servers as plain values: what each is found to be, why, and what can be done. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from nbgpu.core.culling import State, Verdict
from nbgpu.core.flavors import Flavor
from nbgpu.core.idle_view import IdleView
from nbgpu.core.idle_words import describe_finding, describe_forecast
from nbgpu.core.periods import to_instant
from nbgpu.core.stops import why_it_stops
from nbgpu.core.texts import Text

MOST = 200  # rows of one page
NO_RULE = "none"  # beside the states that can be filtered for
STATES = {
    State.ACTIVE.value: Text("in use"),
    State.QUIET.value: Text("idle"),
    State.UNKNOWN.value: Text("not known"),
    NO_RULE: Text("no rule"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """What one signal says."""

    state: State
    text: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One running server."""

    session_id: str
    user: str
    server: str
    flavor: str
    devices: int
    since: datetime
    state: str  # one of STATES
    idle_since: datetime | None
    stops_at: datetime | None  # decided, or if nothing changes
    why: Text | None  # of a stop that is decided
    moves: bool  # it then goes on without a GPU
    until: datetime | None  # when it has run as long as it may
    forecast: Text | None
    reasons: tuple[Reason, ...]
    extended_until: datetime | None
    extend: timedelta | None  # what one click gives; None is nothing
    extendable: timedelta  # what all clicks together still give
    is_own: bool

    @property
    def state_text(self) -> Text:
        """What it is found to be."""
        return STATES[self.state]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What somebody looks for; empty is everything."""

    text: str = ""
    state: str = ""

    def takes(self, row: Row) -> bool:
        """Whether a row is looked for."""
        words = f"{row.user}/{row.server} {row.flavor}".casefold()
        return self.text.casefold() in words and self.state in ("", row.state)


def build_row(view: IdleView, flavor: Flavor | None, zone: tzinfo, *, viewer: str, operates: bool) -> Row:
    """Return the row of a session; `flavor` is None once the menu has it no more."""
    verdict = view.verdict
    forecast = verdict.forecast if verdict is not None else None
    extend = view.policy.extend if operates and view.policy is not None else view.next_extension
    stops_at = view.stop.at if view.stop is not None else forecast.at if forecast is not None else None
    return Row(
        session_id=view.session_id,
        user=view.server.username,
        server=view.server.servername,
        flavor=flavor.display_name if flavor is not None else view.flavor,
        devices=len(view.devices),
        since=view.started_at,
        state=find_state(view),
        idle_since=to_instant(forecast.since) if forecast is not None else None,
        stops_at=to_instant(stops_at) if stops_at is not None else None,
        why=why_it_stops(view.stop.cause) if view.stop is not None else None,
        moves=view.moves_to is not None,
        until=view.until,
        forecast=describe_forecast(verdict, zone) if verdict is not None else None,
        reasons=_reasons(verdict, zone),
        extended_until=to_instant(view.extension.until) if view.extension.until else None,
        extend=timedelta(seconds=extend) if extend else None,
        extendable=timedelta(seconds=view.extendable),
        is_own=view.server.username == viewer,
    )


def select(rows: Iterable[Row], wanted: Filter) -> tuple[Sequence[Row], int]:
    """Return the rows that are looked for, a page of them, and how many there are in all."""
    found = [row for row in rows if wanted.takes(row)]
    return found[:MOST], len(found)


def find_state(view: IdleView) -> str:
    """Return what a running session is found to be, one of STATES."""
    if view.policy is None:
        return NO_RULE
    return view.verdict.state.value if view.verdict is not None else State.UNKNOWN.value


def _reasons(verdict: Verdict | None, zone: tzinfo) -> tuple[Reason, ...]:
    findings = verdict.findings if verdict is not None else ()
    return tuple(Reason(state=each.state, text=describe_finding(each, zone)) for each in findings)
