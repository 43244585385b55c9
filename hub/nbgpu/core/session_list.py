"""What somebody looks for among all sessions, running and ended, and in which order. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from nbgpu.core.idle_view import IdleView


class Wanted(StrEnum):
    """Which sessions."""

    RUNNING = "running"
    ENDED = "ended"
    ALL = "all"


class Order(StrEnum):
    """By what they are in order; with a minus the other way round."""

    STARTED = "started"
    NEWEST = "-started"
    USER = "user"
    USER_DOWN = "-user"
    FLAVOR = "flavor"
    FLAVOR_DOWN = "-flavor"
    COST = "cost"
    DEAREST = "-cost"
    RAN = "ran"
    LONGEST = "-ran"

    @property
    def by(self) -> str:
        """What it is by, without the direction."""
        return self.value.removeprefix("-")

    @property
    def is_down(self) -> bool:
        """Whether the greatest is first."""
        return self.value.startswith("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuestion:
    """What is looked for; None and an empty text are everything. Only sessions that ever ran."""

    wanted: Wanted = Wanted.RUNNING
    order: Order = Order.NEWEST
    text: str = ""  # a part of user/server and flavor, in any case
    username: str | None = None
    servername: str | None = None
    group: str | None = None  # that its person was in at the start
    flavor: str | None = None  # slug
    since: datetime | None = None  # asked for at this time or later
    before: datetime | None = None  # asked for before this time


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session stands in an order: it stays there while others come and go."""

    value: str | int  # of what the order is by
    created: int  # microseconds since 1970, UTC
    session_id: str


@dataclass(frozen=True, slots=True)
class FoundSession:
    """One session of a list."""

    place: Place
    view: IdleView
    reason: str | None  # of its end, as it was noted


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A part of a list, and how many there are in all."""

    rows: tuple[FoundSession, ...]
    total: int
    is_more: bool  # beyond the page, in the direction that was read
