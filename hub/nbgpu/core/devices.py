"""What a machine has: GPUs and MIG instances, told apart by UUID, and what they report.

`None` always means "not reported"; it is never the same as 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU (`GPU-…`) or one MIG instance (`MIG-…`)."""

    uuid: str
    name: str | None = None
    memory_total: int | None = None  # bytes
    index: int | None = None  # for people only: it changes at reboot
    architecture: str | None = None  # "Ampere", "Hopper", …
    compute_capability: tuple[int, int] | None = None
    pci_bus_id: str | None = None
    numa_node: int | None = None
    nvlink_peers: frozenset[str] = frozenset()  # UUIDs of GPUs one NVLink hop away
    mig_enabled: bool = False  # a GPU in MIG mode can't be held whole
    parent_uuid: str | None = None  # of a MIG instance: its GPU
    mig_profile: str | None = None  # "1g.10gb"
    problem: str | None = None  # why it can't be given out now, as a sentence

    @property
    def is_mig(self) -> bool:
        """Whether this is a MIG instance."""
        return self.parent_uuid is not None

    def is_model(self, model: str | None) -> bool:
        """Whether this is what a flavor calls a model: a part of the name, in any case; None is any."""
        return (model or "").casefold() in (self.name or "").casefold()


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on a device. `pid` is the host's, also when read in a container."""

    pid: int
    memory_used: int | None = None  # bytes
    gpu_utilization: int | None = None  # percent of the device; only where it was asked for


@dataclass(frozen=True, slots=True)
class UsageSample:
    """What one device reported at one moment; each field degrades to None alone."""

    device_uuid: str
    taken_at: datetime  # UTC
    gpu_utilization: int | None = None  # percent
    memory_utilization: int | None = None  # percent of time the memory bus was busy
    memory_used: int | None = None  # bytes
    memory_total: int | None = None  # bytes
    temperature: int | None = None  # °C
    power: float | None = None  # W
    power_limit: float | None = None  # W
    sm_clock: int | None = None  # MHz
    memory_clock: int | None = None  # MHz
    ecc_corrected: int | None = None  # errors since the driver was loaded
    ecc_uncorrected: int | None = None
    processes: tuple[GpuProcess, ...] | None = None
    problem: str | None = None  # e.g. "The GPU is lost"; all readings are then None
    lost: bool = False  # for certain: off the bus, or in need of a reset


@dataclass(frozen=True, slots=True)
class Readings:
    """What a driver that answers says of all its devices at one moment."""

    taken_at: datetime  # UTC
    samples: tuple[UsageSample, ...] = ()
    parents: Mapping[str, str] = field(default_factory=dict)  # MIG instance -> its GPU, by UUID
    xids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by UUID, since the readings before


@dataclass(frozen=True, slots=True)
class InventorySnapshot:
    """All devices of a machine at one moment."""

    taken_at: datetime  # UTC
    devices: tuple[Device, ...] = ()
    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None  # the newest CUDA that the driver supports
    simulated: bool = False
    problem: str | None = None  # why the driver can't be asked, as a sentence; devices is then empty
    by_uuid: dict[str, Device] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_uuid", {device.uuid: device for device in self.devices})
