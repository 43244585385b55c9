"""Where adapters meet: each Protocol is a seam at which tests put a fake, held to the real one by a contract test."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from nbgpu.core.devices import Device, InventorySnapshot, Readings, UsageSample
from nbgpu.core.gpu_health import DeviceHealth, Quarantine
from nbgpu.core.leases import Lease, ServerRef
from nbgpu.core.menu import Choice
from nbgpu.core.reconcile import ContainerFact, HubServer
from nbgpu.core.usage import Holding, ServerReading, UsageEntry


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


class GpuReader(Protocol):
    """The driver, for the sampler."""

    def read(self, *, shared: Collection[str] = ()) -> Readings:
        """Return a reading of each device; processes on `shared` ones with their part. Raises DriverError. Blocks."""


class LeaseStore(Protocol):
    """Leases, kept. Each call is one short transaction and may block: use a thread."""

    def acquire(
        self,
        server: ServerRef,
        choice: Choice,
        image_id: str,
        devices: tuple[Device, ...],
        *,
        groups: Collection[str] = (),
    ) -> Lease:
        """Place the choice on `devices` and write a PENDING lease; `groups` are those of the server's user.

        Raises QuotaExceeded, BudgetExceeded, NoCapacity; StoreError.
        """

    def activate(self, session_id: str, started_at: datetime) -> None:
        """Mark the lease ACTIVE as of the container's own start time."""

    def mark_ending(self, session_id: str, *, billable: bool = True) -> None:
        """Note that the end was asked for: whatever happens now, the session is not taken up again.

        A start that failed is not billable, also where its end is left to somebody else.
        """

    def release(self, session_id: str, reason: str, ended_at: datetime | None = None, *, billable: bool = True) -> bool:
        """Give the devices back; False if they were already. Idempotent.

        `ended_at` is the engine's own time of the server's end, None where it does not know; a server that never
        became ready is not billable.
        """

    def find_server(self, server: ServerRef) -> Lease | None:
        """Return a server's open lease."""

    def held_devices(self) -> frozenset[str]:
        """Return the UUIDs of all devices in open leases."""

    def drop_device(self, session_id: str, device_uuid: str) -> bool:
        """Take a device that is gone out of a session's open lease, which goes on; False if it was not in it."""

    def open_leases(self) -> tuple[Lease, ...]:
        """Return all leases that are not released, oldest first."""

    def find_open(self, session_id: str) -> Lease | None:
        """Return the lease of a session if it is not released."""

    def find_newest(self, server: ServerRef) -> Lease | None:
        """Return a server's newest lease, released or not; None when it never had one."""


class Homes(Protocol):
    """Which home volume is whose."""

    def ensure(self, username: str, volume: str) -> str:
        """Return the user's volume; without one `volume` becomes theirs, numbered if somebody had it before."""

    def archive(self, username: str) -> str | None:
        """Put the user's home aside: nobody gets it again. Return its volume, None when there was none."""


class AuditLog(Protocol):
    """What was done on somebody's or our own authority; rows are only ever added."""

    def record(self, *, actor: str, action: str, subject: str, detail: str) -> None:
        """Add a row, dated now."""


class Fleet(Protocol):
    """The containers of this deployment. Each call may block: use a thread."""

    def containers(self) -> tuple[ContainerFact, ...]:
        """Return all of them, running or not. Raises EngineUnavailable."""

    def find(self, session_id: str) -> ContainerFact | None:
        """Return the one of a session. Raises EngineUnavailable."""

    def end(self, container_id: str) -> datetime | None:
        """End and remove one and see it gone; return when it ended, None where nobody knows.

        Idempotent. Raises EngineError.
        """


class HubView(Protocol):
    """What the hub knows of servers. Each call may block: use a thread."""

    def servers(self) -> tuple[HubServer, ...]:
        """Return all servers that run or are pending. Raises HubUnavailable."""

    def find(self, server: ServerRef) -> HubServer | None:
        """Return one server if it runs or is pending. Raises HubUnavailable."""

    def start(self, lease: Lease) -> None:
        """Have the hub start the lease's server with its flavor and image: the spawner takes the running container up.

        Raises HubUnavailable when the hub can't be asked, HubRefused when it says no.
        """


class UsageStore(Protocol):
    """What sessions use, kept. Each call is one short transaction and may block: use a thread. Raise StoreError."""

    def holdings(self) -> tuple[Holding, ...]:
        """Return what active sessions hold: each server, and each device that was not lost."""

    def write(self, entries: Mapping[timedelta, Iterable[UsageEntry]], marks: Mapping[str, DeviceHealth]) -> None:
        """Replace the rows of minutes and hours (by their span), and what is known of the devices."""

    def forget_minutes(self, before: datetime) -> int:
        """Delete some minutes that started before an instant; 0 when there are none."""


class QuarantineStore(Protocol):
    """Devices that are not leased for a fault. Each call is one short transaction and may block. Raise StoreError."""

    def open(self) -> dict[str, Quarantine]:
        """Return the quarantines that hold now, by device."""

    def put(self, quarantine: Quarantine, session_id: str | None = None) -> bool:
        """Quarantine a device, and mark it lost for who holds it, or for one session; False if it is in already."""

    def mark_lost(self, quarantine: Quarantine) -> None:
        """Mark a device lost for who holds it, without a quarantine."""

    def give_back(self, device_uuid: str, *, at: datetime, by: str) -> bool:
        """End a device's quarantine; False when it is in none."""

    def lost_devices(self) -> frozenset[str]:
        """Return the devices that a session still holds though it has lost them."""


class ServerMeters(Protocol):
    """CPU and RAM of servers, as the kernel counts them."""

    def read(self, session_ids: Collection[str]) -> dict[str, ServerReading]:
        """Return a reading of each of these sessions that has one. Raises EngineError. Blocks."""
