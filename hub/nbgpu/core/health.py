"""Which devices must not be leased now, though the driver shows them. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from nbgpu.core.devices import Device, InventorySnapshot, UsageSample
from nbgpu.core.gpu_health import FaultKind, Quarantine
from nbgpu.core.texts import mark
from nbgpu.core.units import render_size

# What an idle device may show as used: the driver's own share, larger on large devices.
LEFTOVER_BYTES = 512 * 2**20
LEFTOVER_SHARE = 0.02
_OUT_OF_SERVICE = mark("An administrator has taken it out of service.")
_AT_FAULT = mark("It had a fault and is not leased until it has been well for a while.")


def quarantine_used(
    snapshot: InventorySnapshot, samples: Iterable[UsageSample], held: Collection[str]
) -> InventorySnapshot:
    """Return the snapshot with a problem on each device that is in use though no lease (`held`: UUIDs) is on it.

    Such memory is an ended server's that the driver did not free, or somebody's outside of nbgpu: the next person would
    run into it, or read it. A device that does not report its memory is given the benefit of the doubt.
    """
    by_uuid = {sample.device_uuid: sample for sample in samples}
    devices = tuple(_judge(device, by_uuid.get(device.uuid), held) for device in snapshot.devices)
    return replace(snapshot, devices=devices)


def hold_back_strays(snapshot: InventorySnapshot, given: Iterable[str], held: Collection[str]) -> InventorySnapshot:
    """Return the snapshot with a problem on each device that a running server was `given` though no lease is on it.

    After the loss of the database, or of the device for a while, a server goes on without its lease: an idle one shows
    in no reading, and the next person must not share the device with it.
    """
    strays = set(given) - set(held)
    devices = tuple(
        replace(device, problem=f"A server that has lost its lease still runs on {_name(device)}; stop that server.")
        if device.uuid in strays and device.problem is None
        else device
        for device in snapshot.devices
    )
    return replace(snapshot, devices=devices)


def hold_back_quarantined(snapshot: InventorySnapshot, held_back: Mapping[str, Quarantine]) -> InventorySnapshot:
    """Return the snapshot with a problem on each device that is in quarantine (`held_back`: by UUID)."""
    devices = tuple(
        replace(device, problem=_why(held_back[device.uuid]))
        if device.uuid in held_back and device.problem is None
        else device
        for device in snapshot.devices
    )
    return replace(snapshot, devices=devices)


def _why(quarantine: Quarantine) -> str:
    return _OUT_OF_SERVICE if quarantine.fault.kind is FaultKind.CORDON else _AT_FAULT


def _judge(device: Device, sample: UsageSample | None, held: Collection[str]) -> Device:
    if device.problem is not None or device.uuid in held or sample is None or sample.memory_used is None:
        return device
    if device.mig_enabled:  # its instances are leased, and judged, one by one
        return device
    limit = max(LEFTOVER_BYTES, int((device.memory_total or 0) * LEFTOVER_SHARE))
    if sample.memory_used <= limit:
        return device
    used = render_size(sample.memory_used)
    problem = f"{used} of the memory of {_name(device)} are in use by something that holds no lease."
    return replace(device, problem=problem)


def _name(device: Device) -> str:
    """A device as an administrator finds it in nvidia-smi."""
    return f"GPU {device.index} ({device.uuid})" if device.index is not None else device.uuid
