"""What a device is: the facts that change only with the machine's set-up."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbgpu.core.devices import Device
from nbgpu.nvml.binding import (
    NVLINKS_MAX,
    P2P_NVLINK,
    P2P_OK,
    DeviceLost,
    Handle,
    ask,
    is_simulated,
    number,
    text,
)
from nbgpu.nvml.readings import read_memory
from nbgpu.nvml.walk import Found

ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}  # NVML_DEVICE_ARCH_*
_MIG_NAME = re.compile(r"\bMIG ((?:\d+c\.)?\d+g\.\d+gb\S*)$")
_GIB = 2**30
PCI_DEVICES = Path("/sys/bus/pci/devices")


def describe(found: Sequence[Found], known: Mapping[str, Device]) -> tuple[Device, ...]:
    """Return the devices that were found, in their order; a lost one keeps what was `known` of it."""
    devices: dict[str, Device] = {}
    for item in found:
        try:
            if item.problem is not None:
                raise DeviceLost(item.problem)
            parent = devices.get(item.parent_uuid) if item.parent_uuid else None
            whole = [other for other in found if other.handle is not None and other.parent_uuid is None]
            devices[item.uuid] = _describe_mig(item, parent) if item.parent_uuid else _describe_gpu(item, whole)
        except DeviceLost as error:
            devices[item.uuid] = replace(known.get(item.uuid) or item.stub(), problem=str(error))
    return tuple(devices.values())


def _describe_gpu(found: Found, gpus: Sequence[Found]) -> Device:
    handle = found.handle
    architecture = ask("nvmlDeviceGetArchitecture", handle)
    bus_id = _pci_bus_id(handle)
    return replace(
        found.stub(),
        name=text(ask("nvmlDeviceGetName", handle)),
        memory_total=read_memory(handle)[1],
        architecture=ARCHITECTURES.get(architecture),
        compute_capability=ask("nvmlDeviceGetCudaComputeCapability", handle),
        pci_bus_id=bus_id,
        numa_node=_numa_node(handle, bus_id),
        nvlink_peers=_nvlink_peers(found, gpus),
    )


def _describe_mig(found: Found, parent: Device | None) -> Device:
    """Describe an instance; where it is comes from its GPU, as instances do not report it."""
    name = text(ask("nvmlDeviceGetName", found.handle))
    memory = read_memory(found.handle)[1]
    return replace(
        found.stub(),
        name=name,
        memory_total=memory,
        architecture=parent.architecture if parent else None,
        compute_capability=parent.compute_capability if parent else None,
        pci_bus_id=parent.pci_bus_id if parent else None,
        numa_node=parent.numa_node if parent else None,
        mig_profile=_mig_profile(found.handle, name, parent_memory=parent.memory_total if parent else None),
    )


def _mig_profile(handle: Handle, name: str | None, *, parent_memory: int | None) -> str | None:
    """Return a profile like "1g.10gb": the end of the name, else made from slices and memory as NVIDIA does.

    The memory in a profile's name is its eighths of the GPU's memory, rounded, not what the instance reports.
    """
    match = _MIG_NAME.search(name or "")
    if match:
        return match[1]
    attributes = ask("nvmlDeviceGetAttributes", handle)
    if attributes is None or not attributes.gpuInstanceSliceCount:
        return None
    memory = attributes.memorySizeMB * 2**20
    gib = -(-memory // _GIB)
    if parent_memory:
        gib = round(memory / parent_memory * 8) * -(-parent_memory // _GIB) // 8
    return f"{attributes.gpuInstanceSliceCount}g.{gib}gb"


def _pci_bus_id(handle: Handle) -> str | None:
    return _bus_id(ask("nvmlDeviceGetPciInfo", handle))


def _bus_id(info: Any) -> str | None:
    """Return the bus id of a PCI struct, read past the binding's strict decoding."""
    return None if info is None else text(type(info).busId.__get__(info))


def _numa_node(handle: Handle, bus_id: str | None) -> int | None:
    """Return the NUMA node from NVML, which only some platforms answer, else from the kernel; None: not known."""
    node = number(ask("nvmlDeviceGetNumaNodeId", handle))
    if node is not None or bus_id is None or is_simulated():  # a simulated bus id may be a real other device's
        return node
    domain, _, rest = bus_id.lower().partition(":")
    try:
        kernels = int((PCI_DEVICES / f"{domain[-4:]}:{rest}" / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return kernels if kernels >= 0 else None  # -1: the machine has one node only


def _nvlink_peers(found: Found, gpus: Sequence[Found]) -> frozenset[str]:
    """Return the GPUs that can be reached by NVLink, also through NVSwitch. A lost neighbour is no peer."""
    others = [gpu for gpu in gpus if gpu.uuid != found.uuid]
    try:
        status = {gpu.uuid: ask("nvmlDeviceGetP2PStatus", found.handle, gpu.handle, P2P_NVLINK) for gpu in others}
        if any(answer is not None for answer in status.values()):
            return frozenset(uuid for uuid, answer in status.items() if answer == P2P_OK)
        places = _linked_places(found.handle) if others else set()
        return frozenset(gpu.uuid for gpu in others if places and _pci_bus_id(gpu.handle) in places)
    except DeviceLost:
        return frozenset()


def _linked_places(handle: Handle) -> set[str | None]:
    """Return the PCI bus ids at the other end of each NVLink: for drivers that don't tell peers apart."""
    places: set[str | None] = set()
    for link in range(NVLINKS_MAX):
        state = ask("nvmlDeviceGetNvLinkState", handle, link)
        if state is None:
            break
        remote = ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link) if state else None
        places.add(_bus_id(remote))
    return places - {None}
