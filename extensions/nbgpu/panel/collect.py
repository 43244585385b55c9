"""Putting a frame together from the driver's answers: own devices only, with what was last known of each."""

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Protocol

from nbgpu.core.devices import Device, InventorySnapshot, UsageSample
from nbgpu.panel.frames import DeviceFrame, Frame
from nbgpu.panel.host import HostReader
from nbgpu.panel.processes import own_processes, sees_host_processes

SHARE_VARIABLE = "NBGPU_GPU_MEMORY_SHARE"  # bytes; the spawner sets it for a slot of a shared device
DESCRIBE_EVERY = timedelta(seconds=60)


class Driver(Protocol):
    """What is asked of `nbgpu.nvml.NvmlInventory`: reads that never raise and are bounded in time."""

    def snapshot(self) -> InventorySnapshot: ...

    def sample(self) -> tuple[UsageSample, ...]: ...


class Collector:
    """Makes frames. For one thread at a time."""

    def __init__(
        self, driver: Driver, *, host: HostReader | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self._driver = driver
        self._host = host or HostReader()
        self._share = memory_share(os.environ if environ is None else environ)
        self._on_host = sees_host_processes()
        self._snapshot: InventorySnapshot | None = None
        self._good: dict[str, UsageSample] = {}  # the last good reading of each device

    def collect(self, now: datetime) -> Frame:
        """Return the devices as they are. A driver that can't be asked is a frame with `problem`; never raises."""
        samples = self._driver.sample() if self._snapshot else ()
        if self._is_old(samples, now):
            samples = self._describe_again()
        snapshot = self._snapshot or InventorySnapshot(now)
        hidden = {device.parent_uuid for device in snapshot.devices if device.is_mig}  # a GPU whose instances are ours
        frames = [
            self._frame(snapshot.by_uuid[sample.device_uuid], sample)
            for sample in samples
            if sample.device_uuid in snapshot.by_uuid and sample.device_uuid not in hidden
        ]
        self._good = {uuid: good for uuid, good in self._good.items() if uuid in snapshot.by_uuid}
        return Frame(
            now,
            tuple(frames),
            host=self._host.read(),
            problem=None if frames else snapshot.problem,
            simulated=snapshot.simulated,
            memory_share=self._share,
        )

    def _is_old(self, samples: tuple[UsageSample, ...], now: datetime) -> bool:
        before = self._snapshot
        if before is None or not samples or before.problem is not None:
            return True
        if {sample.device_uuid for sample in samples} != set(before.by_uuid):
            return True
        return not timedelta(0) <= now - before.taken_at < DESCRIBE_EVERY

    def _describe_again(self) -> tuple[UsageSample, ...]:
        """Ask what the devices are; while the driver can't say, those known stay."""
        found = self._driver.snapshot()
        if found.problem is None or self._snapshot is None or not self._snapshot.devices:
            self._snapshot = found
        return self._driver.sample()

    def _frame(self, device: Device, sample: UsageSample) -> DeviceFrame:
        if sample.problem is None:
            self._good[device.uuid] = sample
        last = self._good.get(device.uuid) if sample.problem is not None and not sample.lost else None
        listed = (last or sample).processes
        processes = own_processes(listed, shared=self._share is not None, on_host=self._on_host)
        return DeviceFrame(device, sample, processes, last)


def memory_share(environ: Mapping[str, str]) -> int | None:
    """Return the bytes of a shared device that are ours; None where the device is not shared."""
    text = environ.get(SHARE_VARIABLE, "")
    return int(text) if text.isascii() and text.isdigit() else None
