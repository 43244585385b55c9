"""Machines to simulate, as data: the key=value lines of the driver and of each device.

Numbers are those of NVIDIA's data sheets and of what idle machines report; UUIDs are made from the profile's
name, so they are the same on each machine and after each start.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

_NAMESPACE = uuid.UUID("6f1d6f4e-0d0c-5c52-9d8a-7d7c1b2f3a10")
_MIB = 2**20
_HOPPER, _AMPERE, _TURING = 9, 7, 6  # NVML's architecture numbers

Values = dict[str, str]


@dataclass(frozen=True, slots=True)
class Model:
    """One GPU product: its name and what it reports when idle."""

    name: str
    memory_mib: int
    architecture: int
    compute_capability: str
    temperature: int  # °C
    power: int  # mW
    power_limit: int  # mW
    sm_clock_max: int  # MHz
    memory_clock: int  # MHz
    can_mig: bool

    def values(self) -> Values:
        """Return the lines that all GPUs of this model share."""
        lines = {
            "name": self.name,
            "architecture": str(self.architecture),
            "compute_capability": self.compute_capability,
            "memory_total": str(self.memory_mib * _MIB),
            "memory_used": str(4 * _MIB),
            "gpu_utilization": "0",
            "memory_utilization": "0",
            "temperature": str(self.temperature),
            "power": str(self.power),
            "power_limit": str(self.power_limit),
            "sm_clock": "345",
            "sm_clock_max": str(self.sm_clock_max),
            "memory_clock": str(self.memory_clock),
            "memory_clock_max": str(self.memory_clock),
            "ecc_corrected": "0",
            "ecc_uncorrected": "0",
            "performance_state": "0",
            "processes": "",
            "process_utilization": "",
        }
        return lines | ({"mig_enabled": "0"} if self.can_mig else {})


A100 = Model("NVIDIA A100-SXM4-80GB", 81920, _AMPERE, "8.0", 31, 62_000, 400_000, 1410, 1593, can_mig=True)
H100 = Model("NVIDIA H100 80GB HBM3", 81559, _HOPPER, "9.0", 29, 70_000, 700_000, 1980, 2619, can_mig=True)
T4 = Model("Tesla T4", 15360, _TURING, "7.5", 36, 10_000, 70_000, 1590, 5001, can_mig=False)

DRIVER: Mapping[str, str] = {"driver_version": "570.86.15", "cuda_version": "12080"}
MIG_MIB = {"1g.10gb": 9728, "2g.20gb": 19968, "3g.40gb": 40192}


@dataclass(slots=True)
class Machine:
    """A profile while it is put together: its GPUs get their index and place on the bus in the order added."""

    slug: str
    devices: dict[str, Values] = field(default_factory=dict)
    gpus: list[str] = field(default_factory=list)

    def add(self, model: Model) -> str:
        """Add a whole GPU; return its UUID."""
        index = len(self.gpus)
        name = f"GPU-{uuid.uuid5(_NAMESPACE, f'{self.slug}/{index}')}"
        place = {"pci_bus_id": f"00000000:{0x17 + 0x10 * index:02X}:00.0", "numa_node": str(index // 4)}
        self.devices[name] = model.values() | place | {"index": str(index)}
        self.gpus.append(name)
        return name

    def partition(self, gpu: str, *mig_profiles: str) -> None:
        """Put a GPU in MIG mode with these instances."""
        parent = self.devices[gpu]
        parent["mig_enabled"] = "1"
        parent["fault.nvmlDeviceGetUtilizationRates"] = "NOT_SUPPORTED"  # as drivers do in MIG mode
        for index, mig_profile in enumerate(mig_profiles):
            name = f"MIG-{uuid.uuid5(_NAMESPACE, f'{gpu}/{index}')}"
            self.devices[name] = build_instance(gpu, parent, mig_profile=mig_profile, index=index)

    def link(self, *gpus: str) -> None:
        """Connect each GPU with each other by NVLink."""
        for gpu in gpus:
            self.devices[gpu]["nvlink_peers"] = ",".join(other for other in gpus if other != gpu)


def build_instance(gpu: str, parent: Mapping[str, str], *, mig_profile: str, index: int) -> Values:
    """Return the lines of one MIG instance of `gpu`. It repeats of its parent what containers may know."""
    shared = ("name", "architecture", "compute_capability", "pci_bus_id")
    return {key: parent[key] for key in shared} | {
        "parent": gpu,
        "parent_index": parent["index"],
        "index": str(index),
        "mig_profile": mig_profile,
        "gpu_instance_id": str(7 + index),
        "memory_total": str(MIG_MIB[mig_profile] * _MIB),
        "memory_used": str(12 * _MIB),
        "processes": "",
    }


def _eight_a100() -> Machine:
    machine = Machine("8xA100")
    machine.link(*[machine.add(A100) for _ in range(8)])
    return machine


def _h100_mig() -> Machine:
    machine = Machine("h100-mig")
    machine.partition(machine.add(H100), *["1g.10gb"] * 7)
    machine.add(H100)
    return machine


def _mixed() -> Machine:
    machine = Machine("mixed")
    machine.link(machine.add(A100), machine.add(A100))
    machine.partition(machine.add(H100), *["1g.10gb"] * 3, *["2g.20gb"] * 2)
    machine.add(T4)
    return machine


def _t4() -> Machine:
    machine = Machine("t4")
    machine.add(T4)
    return machine


PROFILES: Mapping[str, Mapping[str, Values]] = {
    machine.slug: machine.devices for machine in (_eight_a100(), _h100_mig(), _mixed(), _t4(), Machine("none"))
}  # slug -> device UUID -> its lines
