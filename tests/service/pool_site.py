"""Devices of a site as a test decides them, over a real database: what the pages of administrators are shown."""

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

from nbgpu.core.devices import Device, InventorySnapshot, Readings, UsageSample
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.gpu_health import DeviceHealth
from nbgpu.core.leases import Lease, ServerRef
from nbgpu.core.menu import Choice
from nbgpu.service.books import Books
from nbgpu.store import SqlAuditLog, SqlLeaseStore, open_database
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.limits import Policies
from nbgpu.store.quarantine import SqlQuarantines
from nbgpu.telemetry.device_keeper import DeviceKeeper
from nbgpu.wiring.pool import ServicePool
from service.browse import browse
from service.idle_book import Prices
from support.site import make_flavor

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
GIB = 2**30


def make_devices(gpus: int, instances: int) -> tuple[Device, ...]:
    """Return GPUs, each cut into so many MIG instances; 0 leaves them whole."""
    found = []
    for index in range(gpus):
        gpu = Device(f"GPU-{index}", "NVIDIA H100", 80 * GIB, index, mig_enabled=instances > 0)
        found.append(gpu)
        for number in range(instances):
            uuid = f"MIG-{index}-{number}"
            found.append(Device(uuid, "NVIDIA H100", 10 * GIB, parent_uuid=gpu.uuid, mig_profile="1g.10gb"))
    return tuple(found)


def sample(device: Device, **changes) -> UsageSample:
    """Return what a device at work reports; of a MIG instance the memory alone."""
    if device.is_mig:
        return UsageSample(device.uuid, NOW, memory_used=GIB, memory_total=device.memory_total, **changes)
    values = {"gpu_utilization": 37, "memory_used": 3 * GIB, "temperature": 61, "power": 301.6, "power_limit": 700.0}
    return UsageSample(device.uuid, NOW, **(values | changes))


class PoolSite:
    """A site: devices, their readings, leases, quarantines and the audit log."""

    def __init__(self, folder, devices: tuple[Device, ...]) -> None:
        self.engine = open_database(f"sqlite:///{folder / 'nbgpu.sqlite'}")
        self.devices = devices
        self.problem: str | None = None
        self.quarantines, self.audit = SqlQuarantines(self.engine), SqlAuditLog(self.engine, lambda: NOW)
        self.leases = SqlLeaseStore(self.engine, lambda: NOW)
        self.sampler = SimpleNamespace(readings=Readings(NOW, tuple(map(sample, devices))), stale=False)
        self.marks = {each.uuid: DeviceHealth(clean=3) for each in devices}
        self.pool = ServicePool(
            self,
            sampler=self.sampler,
            watch=SimpleNamespace(marks=lambda: self.marks),
            keeper=DeviceKeeper(inventory=self, quarantines=self.quarantines, audit=self.audit, clock=lambda: NOW),
        )

    @property
    def inventory(self) -> "PoolSite":
        """The driver: this."""
        return self

    def snapshot(self) -> InventorySnapshot:
        """Return the devices, as a driver does."""
        return InventorySnapshot(NOW, () if self.problem else self.devices, problem=self.problem)

    def read(self, uuid: str, **changes) -> None:
        """Have a device report something else."""
        samples = self.sampler.readings.samples
        found = tuple(replace(each, **changes) if each.device_uuid == uuid else each for each in samples)
        self.sampler.readings = replace(self.sampler.readings, samples=found)

    def lease(self, user: str, kind: FlavorKind = FlavorKind.GPU, server: str = "", **fields) -> Lease:
        """Start a session."""
        choice = Choice(make_flavor(kind.value, kind, **fields), "base")
        lease = self.leases.acquire(ServerRef(user, server), choice, "sha256:1", self.devices)
        self.leases.activate(lease.session_id, NOW)
        return lease

    def books(self, **more) -> Books:
        """Return what the pages tell of."""
        limits = SqlLimits(self.engine, Policies(), lambda: NOW)
        parts = {"statements": None, "limits": limits, "prices": Prices(), "clock": lambda: NOW, "timezone": "UTC"}
        parts |= {"account_id": "nbgpu", "pool": self.pool, "audit": self.audit}
        return Books(**(parts | more))


@asynccontextmanager
async def browsing(books, name="root", **headers):
    """Serve the pages; give a browser in which somebody has logged in."""
    async with browse(lambda: books, name, **headers) as client:
        yield client
