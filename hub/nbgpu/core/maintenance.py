"""Maintenance: no server is started on a machine any more, and those that run are stopped at a stated time. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from nbgpu.core.authorize import Cause
from nbgpu.core.errors import InvalidOptions, UnderMaintenance
from nbgpu.core.periods import HOUR, to_seconds
from nbgpu.core.stops import Stop
from nbgpu.core.texts import Text

LEAST = timedelta(minutes=5)  # between being told and being stopped
MOST = timedelta(days=31)
WARN = (31 * 24 * HOUR, HOUR, 600)  # seconds before the stop at which people are told; the first is: at once


@dataclass(frozen=True, slots=True)
class Maintenance:
    """A machine's maintenance that has begun."""

    reason: str
    author: str
    since: datetime
    stop_at: datetime | None = None  # when what runs is stopped; None: it may go on
    ended_at: datetime | None = None

    @property
    def stop(self) -> Stop | None:
        """The stop of all that runs."""
        return Stop(to_seconds(self.stop_at), Cause.MAINTENANCE) if self.stop_at is not None else None

    def refuse(self) -> UnderMaintenance:
        """Return what whoever asks for a server is told."""
        return UnderMaintenance(
            Text("No servers are started now: maintenance (%(reason)s). Try again later.", reason=self.reason)
        )


def check_stop(stop_at: datetime | None, now: datetime) -> datetime | None:
    """Return when all is to be stopped. Raises InvalidOptions where people would have no time."""
    if stop_at is not None and not LEAST <= stop_at - now <= MOST:
        raise InvalidOptions(Text("People need 5 minutes at least to save their work; 31 days are the most."))
    return stop_at
