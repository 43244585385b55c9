"""Telling the servers whose GPU is lost: work can be saved, and a new server gets another GPU."""

import logging
from collections.abc import Callable, Iterable
from datetime import timedelta

from nbgpu.core.errors import EngineError
from nbgpu.core.gpu_health import Loss
from nbgpu.core.ports import Clock
from nbgpu.telemetry.limits import Notices

PERIOD = 10.0  # seconds
CAUSE = "gpu_lost"
TEXT = (
    "This server has lost its GPU {uuid}, which is not charged since {since:%H:%M:%S} UTC. Save your work, stop the "
    "server and start it again to get another."
)
_NEWS = timedelta(minutes=15)  # an older loss has been told, by this run or the one before

log = logging.getLogger("nbgpu.gpus")


class LossTeller:
    """Tells each server once; `tick` blocks and is for one thread."""

    def __init__(self, losses: Callable[[], Iterable[Loss]], notices: Notices, clock: Clock) -> None:
        """Take what returns the devices that running sessions have lost; it raises StoreError."""
        self._losses = losses
        self._notices = notices
        self._clock = clock
        self._told: frozenset[Loss] = frozenset()

    def tick(self) -> None:
        """Tell what is new. What fails is tried again at the next look. Raises StoreError."""
        losses, now = frozenset(self._losses()), self._clock()
        self._told &= losses
        for loss in sorted(losses - self._told, key=lambda each: each.lost_at):
            if now - loss.noticed_at > _NEWS or self._tell(loss):
                self._told |= {loss}

    def _tell(self, loss: Loss) -> bool:
        text = TEXT.format(uuid=loss.device_uuid, since=loss.lost_at)
        try:
            self._notices.deliver(loss.session_id, text, None, CAUSE)
        except EngineError as error:
            log.warning("Session %s could not be told of its lost GPU, it is tried again: %s", loss.session_id, error)
            return False
        return True
