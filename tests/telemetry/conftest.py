"""The sampler's parts on a simulated driver and a real database, with clocks that a test moves."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from nbgpu.core.devices import Device
from nbgpu.core.errors import DriverError, StoreError
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.leases import Lease, ServerRef
from nbgpu.core.menu import Choice
from nbgpu.core.usage import Usage
from nbgpu.nvml import NvmlInventory
from nbgpu.nvml.backoff import BackOff
from nbgpu.nvml.simulator import SimulatedDriver
from nbgpu.store import SqlAuditLog, SqlLeaseStore, open_database
from nbgpu.store.quarantine import SqlQuarantines
from nbgpu.store.usage import SqlUsage
from nbgpu.telemetry.gpu_watch import GpuWatch
from nbgpu.telemetry.owners import ProcessOwners
from nbgpu.telemetry.pace import Pace
from nbgpu.telemetry.sampler import LONGEST, Sampler, UsageWriter
from nbgpu.telemetry.usage_book import UsageBook
from support.simulated import ManualClock, clock, library, simulate
from support.site import make_flavor

__all__ = ["clock", "library", "simulate"]


PATIENT = 30.0  # seconds: a slow machine is no database that hangs


@dataclass
class Lab:
    """A site's GPUs, leases and sampler; time is the test's."""

    driver: SimulatedDriver
    clock: ManualClock
    engine: Engine
    devices: tuple[Device, ...]
    owners: dict[int, str | None]  # whose a process is; those that are missing nobody can tell
    return_after: timedelta | None = None

    def __post_init__(self) -> None:
        self.monotonic = 1000.0
        self.leases = SqlLeaseStore(self.engine, self.clock)
        self.usage = SqlUsage(self.engine)
        self.quarantines = SqlQuarantines(self.engine)
        self.audit = SqlAuditLog(self.engine, self.clock)
        self.begin()

    def begin(self) -> None:
        """Begin a run of the sampler: at first, or after the one before was killed."""
        self.book = UsageBook()
        self.watch = GpuWatch(
            quarantines=self.quarantines,
            audit=self.audit,
            known=self.usage.marks(),
            return_after=self.return_after,
            clock=self.clock,
        )
        self.sampler = Sampler(
            reader=NvmlInventory(now=self.clock, back_off=BackOff(longest=timedelta(seconds=1.5))),
            usage=self.usage,
            book=self.book,
            owners=ProcessOwners(lambda pid: self.owners[pid]),
            watch=self.watch,
            clock=self.clock,
            pace=Pace(LONGEST, lambda: self.monotonic),
            database_wait=PATIENT,
        )
        self.writer = UsageWriter(usage=self.usage, book=self.book, marks=self.watch.marks, clock=self.clock)

    def wait(self, seconds: float) -> None:
        """Let time pass without a look."""
        self.clock.forward(seconds)
        self.monotonic += seconds

    def look(self, times: int = 1, *, every: float = 2.0) -> None:
        """Look so many times; a driver that can't be asked is left to the next look, as in the service."""
        for _ in range(times):
            self.wait(every)
            for turn in (self.sampler.tick, self.watch.keep):
                with suppress(DriverError, StoreError):
                    turn()

    def start(self, user: str, kind: FlavorKind = FlavorKind.GPU, **fields: object) -> Lease:
        """Start a session now."""
        choice = Choice(make_flavor(kind.value, kind, **fields), "base")
        lease = self.leases.acquire(ServerRef(user), choice, "sha256:1", self.devices)
        self.leases.activate(lease.session_id, self.clock())
        return lease

    def written(self, lease: Lease) -> dict[str, Usage]:
        """Return what is in the database of a session, after a write."""
        self.writer.write()
        return self.usage.of_session(lease.session_id)

    def device_usage(self, lease: Lease) -> Usage:
        """Return the usage of a session's only device, after a write."""
        (uuid,) = lease.allocation.device_uuids
        return self.written(lease).get(uuid, Usage())

    def lost_at(self, lease: Lease) -> list[datetime | None]:
        """Return since when each device of a session is lost to it."""
        with self.engine.connect() as connection:
            rows = connection.exec_driver_sql(
                f"SELECT lost_at FROM leases WHERE session_id = '{lease.session_id}' ORDER BY position"
            )
            found = [row[0] for row in rows]
        return [each and datetime.fromisoformat(f"{each}+00:00") for each in found]


@pytest.fixture
def make_lab(tmp_path: Path, simulate, clock):
    """Return what builds a lab of a simulated machine."""
    engines: list[Engine] = []

    def make(profile: str = "8xA100", *, return_after: timedelta | None = None) -> Lab:
        driver = simulate(profile)
        engines.append(open_database(f"sqlite:///{tmp_path / 'nbgpu.sqlite'}"))
        devices = NvmlInventory(now=clock).snapshot().devices
        return Lab(driver, clock, engines[-1], devices, {}, return_after)

    yield make
    for engine in engines:
        engine.dispose()


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    return make_lab()
