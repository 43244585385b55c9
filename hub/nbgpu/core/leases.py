"""Leases: who holds which devices since when. One lease is the lifetime of one server: its session."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from nbgpu.core.authorize import Cause
from nbgpu.core.placement import Allocation

REASON_LENGTH = 255  # characters that are kept of why a session ended


@dataclass(frozen=True, slots=True, order=True)
class ServerRef:
    """A user's notebook server; the default one has the empty server name."""

    username: str
    servername: str = ""

    def __str__(self) -> str:
        return f"{self.username}/{self.servername}" if self.servername else self.username


class LeaseState(StrEnum):
    """Where a lease is in its life."""

    PENDING = "pending"  # written before anything is created
    ACTIVE = "active"  # the container runs
    ENDING = "ending"  # somebody asked for the end; the container may still run
    RELEASED = "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The devices of one session. What it was granted and at what price never changes."""

    session_id: str  # a UUID, never reused
    server: ServerRef
    flavor: str  # slug
    image: str  # slug
    image_id: str  # the engine's immutable id
    price_per_hour: int  # micro-units, fixed at the start
    state: LeaseState
    allocation: Allocation
    created_at: datetime
    active_at: datetime | None = None  # the container's own start time
    released_at: datetime | None = None
    release_reason: str | None = None
    time_limit: timedelta | None = None  # its flavor's, at the start
    authorized: timedelta | None = None  # how long it may run in all; None is no limit
    authorized_by: Cause | None = None  # what sets that
    billing_group: str = ""  # whose pool pays; "" is none
    paid_by: str = ""  # the budget of that group that pays; "" is none
    stop_at: datetime | None = None  # when it will be stopped, or was, where that is decided
    stop_cause: Cause | None = None  # why
    lost_devices: frozenset[str] = frozenset()  # UUIDs of devices that failed while it held them
