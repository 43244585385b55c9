"""One moment of what the panel shows, as plain values. None always means "not reported"."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nbgpu.core.devices import Device, UsageSample
from nbgpu.panel.host import HostSample
from nbgpu.panel.processes import OwnProcess


@dataclass(frozen=True, slots=True)
class DeviceFrame:
    """One device at one moment."""

    device: Device
    sample: UsageSample
    processes: tuple[OwnProcess, ...] | None = None
    last: UsageSample | None = None  # the last good reading, when this one failed and the device is not lost

    @property
    def shown(self) -> UsageSample:
        """The reading to show: this one, or the last good one."""
        return self.last or self.sample

    @property
    def age_s(self) -> float:
        """How much older than the frame the reading to show is, in seconds."""
        return max(0.0, (self.sample.taken_at - self.shown.taken_at).total_seconds())


@dataclass(frozen=True, slots=True)
class Frame:
    """All devices of one moment, in the driver's order. `problem` says why there are none."""

    taken_at: datetime  # UTC
    devices: tuple[DeviceFrame, ...] = ()
    host: HostSample = field(default_factory=HostSample)
    problem: str | None = None
    simulated: bool = False
    memory_share: int | None = None  # bytes of a shared device that are ours; None: the device is not shared


READINGS = (
    "gpu_utilization",
    "memory_used",
    "memory_total",
    "temperature",
    "power",
    "power_limit",
    "sm_clock",
    "memory_clock",
    "ecc_errors",
)


def readings(sample: UsageSample) -> Mapping[str, int | float | None]:
    """Return what a device can report as numbers: percent, bytes, °C, W and MHz, by the names of `GpuPanel`."""
    return {
        "gpu_utilization": sample.gpu_utilization,
        "memory_used": sample.memory_used,
        "memory_total": sample.memory_total,
        "temperature": sample.temperature,
        "power": sample.power,
        "power_limit": sample.power_limit,
        "sm_clock": sample.sm_clock,
        "memory_clock": sample.memory_clock,
        "ecc_errors": _add(sample.ecc_corrected, sample.ecc_uncorrected),
    }


def _add(one: int | None, other: int | None) -> int | None:
    """Return the sum of what is reported."""
    known = [each for each in (one, other) if each is not None]
    return sum(known) if known else None
