"""Where adapters meet: each Protocol is a seam at which tests put a fake, held to the real one by a contract test."""

from datetime import datetime
from typing import Protocol

from nbgpu.core.devices import InventorySnapshot, UsageSample


class Clock(Protocol):
    """Tells the time in UTC."""

    def __call__(self) -> datetime:
        """Return an aware UTC instant."""


class Inventory(Protocol):
    """The devices of this machine. Both calls may block for up to their time limit: use a thread."""

    def snapshot(self) -> InventorySnapshot:
        """Return all devices; a driver that can't be asked is a snapshot with `problem`, never an exception."""

    def sample(self) -> tuple[UsageSample, ...]:
        """Return one reading of each device, in the order of `snapshot().devices`."""
