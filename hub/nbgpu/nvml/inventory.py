"""The `Inventory` port on NVML: reads that never raise, never hang for long, and recover.

It keeps the driver initialised between reads, and knows of the last reading what lost devices were.
"""

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import TypeVar

from nbgpu.core.devices import Device, InventorySnapshot, Readings, UsageSample
from nbgpu.core.errors import DriverError
from nbgpu.core.ports import Clock
from nbgpu.nvml.backoff import BackOff
from nbgpu.nvml.binding import DriverLost, ask, connect, disconnect, is_simulated, number, text
from nbgpu.nvml.bounded import OneAtATime
from nbgpu.nvml.describe import describe
from nbgpu.nvml.events import XidEvents
from nbgpu.nvml.readings import read_sample
from nbgpu.nvml.walk import Found, walk

T = TypeVar("T")


def utc_now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


class NvmlInventory:
    """The devices of this machine, or of this container, as its NVIDIA driver reports them.

    `snapshot` and `sample` block for `limit_s` seconds at most; for `start_limit_s` when the driver has to be
    initialised, which takes seconds where no persistence daemon runs. Threads may share one.
    """

    def __init__(
        self,
        *,
        now: Clock = utc_now,
        limit_s: float = 2.0,
        start_limit_s: float = 10.0,
        back_off: BackOff | None = None,
    ) -> None:
        self._now = now
        self._limit_s = limit_s
        self._start_limit_s = start_limit_s
        self._back_off = back_off or BackOff()
        self._calls = OneAtATime()
        self._connected = False
        self._events = XidEvents()
        self._known: dict[str, Device] = {}  # of the last walk, by UUID, in its order

    def snapshot(self) -> InventorySnapshot:
        """Return all devices; a driver that can't be asked is a snapshot with `problem`, never an exception."""
        taken_at = self._now()
        try:
            return self._ask(lambda: self._snapshot(taken_at), taken_at)
        except DriverError as error:
            return InventorySnapshot(taken_at, simulated=is_simulated(), problem=str(error))

    def sample(self) -> tuple[UsageSample, ...]:
        """Return one reading of each device, in the order of `snapshot().devices`.

        When the driver can't be asked, each device that was last seen has a sample with `problem`.
        """
        taken_at = self._now()
        try:
            return self._ask(lambda: self._sample(taken_at), taken_at)
        except DriverError as error:
            return tuple(UsageSample(uuid, taken_at, problem=str(error)) for uuid in list(self._known))

    def read(self, *, shared: Collection[str] = ()) -> Readings:
        """Return one reading of each device, with the Xids that came since the last call. Raises DriverError.

        The processes on the `shared` devices (UUIDs) come with their parts of the utilization, where reported.
        """
        taken_at = self._now()
        return self._ask(lambda: self._read(taken_at, shared), taken_at)

    def reconnect(self) -> None:
        """Let the next read initialise NVML anew: it then sees what a new process would see.

        A process that holds the driver open notices neither that its container lost the devices nor new GPUs.
        """
        try:
            self._calls.call(self._drop, limit_s=self._limit_s)
        except DriverError:
            return  # it is stuck: the next read says so

    close = reconnect

    def _ask(self, read: Callable[[], T], now: datetime) -> T:
        """Run `read` with the driver initialised, bounded in time. Raises DriverError with a sentence."""
        if self._back_off.is_waiting(now):
            raise DriverLost(self._back_off.reason)
        limit_s = self._limit_s if self._connected else self._start_limit_s
        return self._calls.call(lambda: self._run(read, now), limit_s=limit_s)

    def _run(self, read: Callable[[], T], now: datetime) -> T:
        """Run `read` in the worker's thread, where all of this object's state changes."""
        try:
            if not self._connected:
                connect()
                self._connected = True
            answer = read()
        except DriverLost as error:
            self._back_off.fail(now, str(error))
            self._drop()
            raise
        self._back_off.succeed()
        return answer

    def _drop(self) -> None:
        if self._connected:
            self._connected = False
            self._events.close()
            disconnect()

    def _snapshot(self, taken_at: datetime) -> InventorySnapshot:
        devices = describe(walk(self._known), self._known)
        self._known = {device.uuid: device for device in devices}
        return InventorySnapshot(
            taken_at,
            devices,
            driver_version=text(ask("nvmlSystemGetDriverVersion")),
            cuda_version=_cuda_version(),
            simulated=is_simulated(),
        )

    def _sample(self, taken_at: datetime) -> tuple[UsageSample, ...]:
        found = walk(self._known)
        self._remember(found)
        return tuple(read_sample(device, taken_at) for device in found)

    def _read(self, taken_at: datetime, shared: Collection[str]) -> Readings:
        xids = self._events.collect()  # first: what comes while the devices are read is for the next call
        found = walk(self._known)
        self._remember(found)
        self._events.watch(found)
        return Readings(
            taken_at,
            tuple(read_sample(device, taken_at, shares=device.uuid in shared) for device in found),
            parents={device.uuid: device.parent_uuid for device in found if device.parent_uuid is not None},
            xids=xids,
        )

    def _remember(self, found: tuple[Found, ...]) -> None:
        """Keep who is there; what an earlier snapshot knew of them stays."""
        self._known = {item.uuid: self._known.get(item.uuid) or item.stub() for item in found}


def _cuda_version() -> tuple[int, int] | None:
    """Return the newest CUDA that the driver supports; NVML says 12080 for 12.8."""
    value = number(ask("nvmlSystemGetCudaDriverVersion_v2"))
    if value is None:
        value = number(ask("nvmlSystemGetCudaDriverVersion"))
    return None if value is None else (value // 1000, value % 1000 // 10)
