"""The sampler: looks at all GPUs every two seconds and notes what sessions make of them.

A sample stands for the time since the look before. A look that fails, a device that can't be read, and a pause (a
machine that was suspended, a service that was ended) are gaps: their time is in no sum.
"""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from nbgpu.core.devices import Readings, UsageSample
from nbgpu.core.errors import DriverError
from nbgpu.core.gpu_health import DeviceHealth
from nbgpu.core.ports import Clock, GpuReader, UsageStore
from nbgpu.core.usage import HOUR, MINUTE, SERVER, Holding, Metered, elapsed_of, measure_device
from nbgpu.telemetry.gpu_watch import GpuWatch
from nbgpu.telemetry.latest import Latest
from nbgpu.telemetry.owners import Owners, ProcessOwners
from nbgpu.telemetry.pace import Pace
from nbgpu.telemetry.usage_book import UsageBook

INTERVAL = 2.0  # seconds
LONGEST = 3 * INTERVAL  # what a sample stands for at most
DATABASE_WAIT = 0.5  # seconds
MINUTES_KEPT = timedelta(days=35)


class Sampler:
    """Samples; `tick` blocks and is for one thread."""

    def __init__(
        self,
        *,
        reader: GpuReader,
        usage: UsageStore,
        book: UsageBook,
        owners: ProcessOwners,
        watch: GpuWatch,
        clock: Clock,
        pace: Pace | None = None,
        database_wait: float = DATABASE_WAIT,
    ) -> None:
        self._reader = reader
        self._book = book
        self._owners = owners
        self._watch = watch
        self._clock = clock
        self._pace = pace or Pace(LONGEST)
        self._holdings: Latest[tuple[Holding, ...]] = Latest(usage.holdings, (), wait=database_wait)
        self._seen: frozenset[Metered] = frozenset()
        self._sampled_at: float | None = None  # by a clock that is never set
        self._problem: str | None = None
        self.readings: Readings | None = None  # the newest

    def tick(self) -> None:
        """Look once. Raises DriverError when the driver can't be asked: this time is a gap then.

        A database that is away or hangs costs no sample: what was held before is taken to be held still.
        """
        elapsed = self._pace.elapsed_ms()
        devices = tuple(each for each in self._holdings.get() if each.metered.device_uuid != SERVER)
        readings = self._read({each.metered.device_uuid for each in devices if each.shared})
        at_fault = self._watch.judge(readings, devices)
        well = {each.device_uuid: each for each in readings.samples if each.device_uuid not in at_fault}
        self._count(well, devices, elapsed)

    @property
    def age(self) -> float | None:
        """The seconds since the driver last answered; None: it has not yet."""
        return None if self._sampled_at is None else time.monotonic() - self._sampled_at

    @property
    def stale(self) -> bool:
        """Whether what is known of the devices is of the past."""
        return self.age is None or self.age > LONGEST

    def health(self) -> dict[str, Any]:
        """Return how the sampling goes, as plain values for JSON."""
        age = self.age
        return {
            "sampled_s_ago": None if age is None else round(age, 1),
            "stale": self.stale,
            "problem": self._problem,
        }

    def _read(self, shared: set[str]) -> Readings:
        try:
            readings = self._reader.read(shared=shared)
        except DriverError as error:
            self._problem = str(error)
            raise
        self._problem, self._sampled_at = None, time.monotonic()
        self.readings = readings
        return readings

    def _count(self, samples: Mapping[str, UsageSample], devices: tuple[Holding, ...], elapsed: int) -> None:
        now = self._clock()
        shared = {each.metered.device_uuid for each in devices if each.shared} & samples.keys()
        self._owners.turn()
        owners = {uuid: self._find_owners(samples[uuid]) for uuid in shared}
        for holding in devices:
            sample = samples.get(holding.metered.device_uuid)
            if sample is None or sample.problem is not None:
                continue
            ms = elapsed_of(holding, now, elapsed, known=holding.metered in self._seen)
            utilization, memory = sample.gpu_utilization, sample.memory_used
            if holding.shared:
                utilization, memory = share_of(sample, holding.metered.session_id, owners[sample.device_uuid])
            self._book.add(holding.metered, now, measure_device(ms, utilization=utilization, memory_used=memory))
        self._seen = frozenset(each.metered for each in devices)

    def _find_owners(self, sample: UsageSample) -> Owners | None:
        return self._owners.find(process.pid for process in sample.processes or ())


def share_of(sample: UsageSample, session_id: str, owners: Owners | None) -> tuple[int | None, int | None]:
    """Return percent and bytes that one session uses of a shared device; None where that can't be told."""
    if sample.processes is None or owners is None:
        return None, None
    mine = [process for process in sample.processes if owners[process.pid] == session_id]
    return _total([each.gpu_utilization for each in mine]), _total([each.memory_used for each in mine])


def _total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


class UsageWriter:
    """Brings what was sampled into the database, once a minute in one transaction."""

    def __init__(
        self, *, usage: UsageStore, book: UsageBook, marks: Callable[[], Mapping[str, DeviceHealth]], clock: Clock
    ) -> None:
        self._usage = usage
        self._book = book
        self._marks = marks
        self._clock = clock

    def write(self) -> None:
        """Write what is new. Raises StoreError; it is then written the next time."""
        pending = self._book.pending()
        entries = {span: [entry for each, entry in pending if each == span] for span in (MINUTE, HOUR)}
        self._usage.write(entries, self._marks())
        self._book.confirm(pending)

    def forget(self) -> None:
        """Delete minutes of long ago; the hours have their sums."""
        while self._usage.forget_minutes(self._clock() - MINUTES_KEPT):
            pass
