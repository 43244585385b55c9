"""When a running session is to be stopped for what it may run, and what its person is told before. Pure."""

from dataclasses import dataclass
from datetime import tzinfo

from nbgpu.core.authorize import LEAST, Cause
from nbgpu.core.leases import ServerRef
from nbgpu.core.periods import to_instant
from nbgpu.core.texts import Text

WARN = 600  # seconds before a stop that its person is told
_WHY = {
    Cause.TIME_LIMIT: Text("its time limit is reached"),
    Cause.QUOTA: Text("your GPU-hours are used up"),
    Cause.BUDGET: Text("the budget that pays for it is used up"),
}


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop that is decided: when, in seconds since 1970, and why."""

    at: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class PlannedStop:
    """A running session that is to be stopped."""

    session_id: str
    server: ServerRef
    stop: Stop


def plan_stop(*, deadline: int | None, cause: Cause | None, decided: Stop | None, now: int, grace: int) -> Stop | None:
    """Return the stop of a session that may run until `deadline`; None where there is no need of one now.

    A time limit is known from the start: the server stops on it. Money and hours run out by what others do, too: then
    `grace` seconds begin. Once they have, only time enough to go on ends them.
    """
    if deadline is None or cause is None:
        return None
    if cause is Cause.TIME_LIMIT:
        return Stop(deadline, cause) if deadline - now <= WARN else None
    if decided is not None and decided.cause is cause and deadline - now < LEAST:
        return decided
    return Stop(deadline + grace, cause) if deadline <= now else None


def describe_stop(stop: Stop, zone: tzinfo) -> Text:
    """Return what the person is told."""
    at = to_instant(stop.at).astimezone(zone).strftime("%H:%M %Z")
    return Text(
        "This server will be stopped at %(at)s: %(why)s. Save what you need; files in your home folder are kept.",
        at=at,
        why=_WHY[stop.cause],
    )


def why_it_stops(cause: Cause) -> Text:
    """Return the cause of a stop as part of a sentence."""
    return _WHY[cause]


def explain_stop(cause: Cause) -> Text:
    """Return why a server was stopped."""
    return Text("It was stopped: %(why)s.", why=_WHY[cause])
