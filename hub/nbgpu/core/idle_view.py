"""A session with what is found of its idleness, as pages, commands and the API show it. Pure."""

from dataclasses import dataclass
from datetime import datetime

from nbgpu.core.authorize import Cause
from nbgpu.core.culling import Extension, State, Verdict, left_to_extend
from nbgpu.core.idle_policy import IdlePolicy
from nbgpu.core.leases import ServerRef
from nbgpu.core.stops import Stop

_NOT_JUDGED = Verdict(state=State.UNKNOWN, findings=(), forecast=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleView:
    """One session, running or ended."""

    session_id: str
    server: ServerRef
    flavor: str  # slug
    image: str  # slug
    devices: tuple[str, ...]  # UUIDs
    groups: tuple[str, ...]  # of its person, at the start
    started_at: datetime
    until: datetime | None  # when it has run as long as it may
    time_limit: int | None  # seconds
    price_per_hour: int  # micro-units
    stop: Stop | None  # decided, for whatever cause
    policy: IdlePolicy | None  # None: nothing ever stops it for being idle
    verdict: Verdict | None  # None: not judged yet, or no policy; of an ended session the last one
    extension: Extension
    ended_at: datetime | None = None

    @property
    def moves_to(self) -> str | None:
        """The flavor without a GPU that it goes on with at the stop that is decided; None: it is stopped."""
        if self.stop is None or self.stop.cause is not Cause.GPU_IDLE or self.verdict is None:
            return None
        return self.verdict.forecast.move_to if self.verdict.forecast is not None else None

    @property
    def extendable(self) -> int:
        """The seconds that its person may still ask for; 0 where nothing is to be had."""
        if self.policy is None or not self.policy.extend or self.ended_at is not None:
            return 0
        return left_to_extend(self.verdict or _NOT_JUDGED, self.policy, self.extension)

    @property
    def next_extension(self) -> int:
        """The seconds that one click gives now."""
        return min(self.policy.extend, self.extendable) if self.policy is not None else 0
