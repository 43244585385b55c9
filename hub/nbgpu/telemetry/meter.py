"""The meter: each tick notes which containers run and posts what is certain.

Nothing depends on a tick that was missed: charges follow from the containers' own start and finish, and a tick only
notes when a container was last seen, for the case that nobody will ever know its finish.
"""

import logging
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Protocol

from nbgpu.core.errors import EngineError
from nbgpu.core.ledger import Charge
from nbgpu.core.ports import Clock, Fleet
from nbgpu.telemetry.uptime import Uptime

PERIOD = 30.0  # seconds between two ticks
STEP_TOLERANCE = 2  # seconds by which two clocks may drift apart in a tick, and by which a slow tick is late

log = logging.getLogger("nbgpu.meter")


class Metering(Protocol):
    """Where a meter keeps what it knows. Each call is one transaction and may block."""

    def note_tick(self, *, at: datetime, uptime: int, boot_id: str, tolerance: int) -> int:
        """Note a tick by both clocks; return the seconds that the wall clock was stepped by since the last."""

    def note_seen(self, session_ids: Collection[str], at: datetime) -> None:
        """Note that the containers of these sessions ran at an instant."""

    def settle(self) -> tuple[Charge, ...]:
        """Post what is certain and not in the ledger yet; return it."""


class Meter:
    """Meters the sessions of a deployment; `tick` blocks: use a thread."""

    def __init__(self, *, metering: Metering, fleet: Fleet, clock: Clock, uptime: Callable[[], Uptime]) -> None:
        self._metering = metering
        self._fleet = fleet
        self._clock = clock
        self._uptime = uptime

    def tick(self) -> tuple[Charge, ...]:
        """Note what runs and post what is certain; return what was posted. Raises StoreError; nothing is lost by it."""
        self._note_running(self.watch_clock())
        return self._metering.settle()

    def watch_clock(self) -> datetime:
        """Note a step of the clock, so that nobody takes it for time that went; return the time. Raises StoreError."""
        now, uptime = self._clock(), self._uptime()
        step = self._metering.note_tick(
            at=now, uptime=uptime.milliseconds, boot_id=uptime.boot_id, tolerance=STEP_TOLERANCE
        )
        if step:
            log.warning(
                "The clock was stepped by %+d s: running sessions are charged by the time that really went", step
            )
        return now

    def _note_running(self, now: datetime) -> None:
        """Note who runs; where the engine can't be asked, nothing is known and nothing is noted."""
        try:
            running = [each.session_id for each in self._fleet.containers() if each.running]
        except EngineError as error:
            log.warning("Not seen now who runs: %s", error)
            return
        self._metering.note_seen(running, now)
