"""When a running session is to be stopped for what it may run, and what its person is told before. Pure."""

from dataclasses import dataclass
from datetime import tzinfo

from nbgpu.core.authorize import LEAST, Cause
from nbgpu.core.leases import ServerRef
from nbgpu.core.periods import to_instant
from nbgpu.core.texts import Text

IDLE_CAUSES = frozenset({Cause.IDLE, Cause.GPU_IDLE})
STOPPED_BY_ADMIN = "stopped by an administrator: "  # how the reason of such an end begins; the words follow
WARN = 600  # seconds before a stop that its person is told
_WHY = {
    Cause.TIME_LIMIT: Text("its time limit is reached"),
    Cause.QUOTA: Text("your GPU-hours are used up"),
    Cause.BUDGET: Text("the budget that pays for it is used up"),
    Cause.IDLE: Text("it is idle"),
    Cause.GPU_IDLE: Text("its GPU is idle"),
    Cause.MAINTENANCE: Text("this machine is maintained"),
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
    warn: tuple[int, ...] = ()  # seconds before the stop at which its person is told again, longest first
    move: "Move | None" = None  # it is started again, with another flavor

    def told_times(self, now: int) -> int:
        """Return how many times its person is to have been told by now."""
        return 1 + sum(self.stop.at - now <= each for each in self.warn[1:])


@dataclass(frozen=True, slots=True)
class Move:
    """What a server goes on with: the same home and address on another flavor."""

    flavor: str  # slug
    image: str  # slug


@dataclass(frozen=True, slots=True)
class Kept:
    """What a look at all running sessions found."""

    stops: tuple[PlannedStop, ...] = ()
    called_off: tuple[str, ...] = ()  # sessions whose stop was decided before, and is not needed any more
    moved: tuple[PlannedStop, ...] = ()  # sessions that were stopped for a move whose second half is to be done


def plan_stop(
    *,
    deadline: int | None,
    cause: Cause | None,
    decided: Stop | None,
    now: int,
    grace: int,
    latest: int | None = None,
) -> Stop | None:
    """Return the stop of a session that may run until `deadline`; None where there is no need of one now.

    A time limit is known from the start: the server stops on it. Money and hours run out by what others do, too: then
    `grace` seconds begin, but never beyond the time limit (`latest`). Once they have, only time enough to go on ends
    them. Whoever was not told before, because nobody looked or the rules changed, is told and has some time, too.
    """
    if deadline is None or cause is None:
        return None
    if decided is not None and decided.cause is cause and deadline - now < LEAST and cause is not Cause.TIME_LIMIT:
        return decided
    at = deadline if cause is Cause.TIME_LIMIT else deadline + grace
    if latest is not None:
        at = min(at, latest)
    if decided is not None and decided.cause is cause and decided.at >= at and deadline <= now:
        return decided  # the time that was given to one who was not told before
    if (deadline - now > WARN) if cause is Cause.TIME_LIMIT else (deadline > now):
        return None
    if at <= now:
        at = now + (WARN if cause is Cause.TIME_LIMIT else grace)
    return Stop(at, cause)


def describe_stop(stop: Stop, zone: tzinfo, move: Move | None = None) -> Text:
    """Return what the person is told."""
    at = to_instant(stop.at).astimezone(zone).strftime("%H:%M %Z")
    if move is not None:
        return Text(
            "This server will be started anew at %(at)s without a GPU, as “%(flavor)s”: its GPU is idle. Save what you "
            "need; files in your home folder are kept, what is in memory is not. Use the GPU, or extend, to keep it.",
            at=at,
            flavor=move.flavor,
        )
    if stop.cause in IDLE_CAUSES:
        return Text(
            "This server will be stopped at %(at)s: %(why)s. Work in it, or extend it, to keep it running; files in "
            "your home folder are kept in any case.",
            at=at,
            why=_WHY[stop.cause],
        )
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
