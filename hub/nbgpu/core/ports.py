"""Where adapters meet: each Protocol is a seam at which tests put a fake, held to the real one by a contract test."""

from datetime import datetime
from typing import Protocol

from nbgpu.core.devices import Device, InventorySnapshot, UsageSample
from nbgpu.core.leases import Lease, ServerRef
from nbgpu.core.menu import Choice


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


class LeaseStore(Protocol):
    """Leases, kept. Each call is one short transaction and may block: use a thread."""

    def acquire(self, server: ServerRef, choice: Choice, image_id: str, devices: tuple[Device, ...]) -> Lease:
        """Place the choice on `devices` and write a PENDING lease. Raises NoCapacity; StoreError."""

    def activate(self, session_id: str, started_at: datetime) -> None:
        """Mark the lease ACTIVE as of the container's own start time."""

    def release(self, session_id: str, reason: str) -> bool:
        """Give the devices back; False if they were already. Idempotent."""

    def release_server(self, server: ServerRef, reason: str) -> int:
        """Give back whatever the server still holds; return how many leases that ended. Idempotent."""

    def open_leases(self) -> tuple[Lease, ...]:
        """Return all leases that are not released, oldest first."""
