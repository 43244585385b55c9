"""Finding the devices: GPUs in the driver's order, each followed by its MIG instances.

Handles are asked for anew each time: MIG instances come and go, and a handle costs about a microsecond.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nbgpu.core.devices import Device
from nbgpu.nvml.binding import DeviceLost, Handle, ask, count_gpus, find_handle, text

MIGS_MAX = 16  # a GPU has 7 at most today; a bound in case the driver answers nonsense


@dataclass(frozen=True, slots=True)
class Found:
    """A device that is there. `handle` is None exactly when `problem` says why it can't be asked."""

    uuid: str
    index: int
    handle: Handle | None = None
    parent_uuid: str | None = None
    mig_enabled: bool = False
    problem: str | None = None
    lost: bool = False  # for certain, by its own word

    def stub(self) -> Device:
        """Return the device with only what is known without asking more."""
        return Device(
            self.uuid,
            index=self.index,
            parent_uuid=self.parent_uuid,
            mig_enabled=self.mig_enabled,
            problem=self.problem,
        )


def walk(known: Mapping[str, Device]) -> tuple[Found, ...]:
    """Return the devices. `known` (by UUID, of an earlier walk) names those that are lost. Raises DriverLost."""
    found = [device for index in range(count_gpus()) for device in _walk_gpu(index, known)]
    healthy = {device.uuid for device in found if device.problem is None}
    return tuple(
        Found(f"GPU-lost-{device.index}", device.index, problem=device.problem, lost=device.lost)
        if device.problem and device.uuid in healthy  # the order changed: its identity is not known after all
        else device
        for device in found
    )


def _walk_gpu(index: int, known: Mapping[str, Device]) -> list[Found]:
    """Return one GPU and its MIG instances; a GPU that is lost brings those that it had."""
    try:
        handle = find_handle("nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            return []  # it went away after it was counted
        uuid = text(ask("nvmlDeviceGetUUID", handle)) or _uuid_at(index, known)
        migs = list(_walk_migs(handle, uuid, known)) if _may_have_migs(handle) else []
        enabled = _mig_mode(handle) == 1 or bool(migs)
    except DeviceLost as error:
        return _lost(index, known, error)
    return [Found(uuid, index, handle, mig_enabled=enabled), *migs]


def _lost(index: int, known: Mapping[str, Device], error: DeviceLost) -> list[Found]:
    uuid, problem, lost = _uuid_at(index, known), str(error), error.certain
    before = known.get(uuid)
    enabled = before is not None and before.mig_enabled
    migs = [
        Found(device.uuid, device.index or 0, parent_uuid=uuid, problem=problem, lost=lost)
        for device in known.values()
        if device.parent_uuid == uuid
    ]
    return [Found(uuid, index, mig_enabled=enabled, problem=problem, lost=lost), *migs]


def _uuid_at(index: int, known: Mapping[str, Device]) -> str:
    """Return the UUID that the GPU of this index had, else a name that can't be mistaken for one."""
    for device in known.values():
        if device.index == index and not device.is_mig:
            return device.uuid
    return f"GPU-lost-{index}"


def _mig_mode(handle: Handle) -> int | None:
    """Return 1 in MIG mode, 0 out of it, None where it is not reported."""
    modes = ask("nvmlDeviceGetMigMode", handle)
    return None if modes is None else int(modes[0])


def _may_have_migs(handle: Handle) -> bool:
    """Whether to look for instances: unless the GPU says it is not in MIG mode. Containers may hide the mode."""
    return _mig_mode(handle) != 0


def _walk_migs(handle: Handle, parent_uuid: str, known: Mapping[str, Device]) -> Iterator[Found]:
    count = ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0
    siblings = {device.index: device.uuid for device in known.values() if device.parent_uuid == parent_uuid}
    for index in range(min(count, MIGS_MAX)):
        try:
            mig = find_handle("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
            if mig is None:
                continue
            uuid = text(ask("nvmlDeviceGetUUID", mig)) or siblings.get(index) or f"MIG-lost-{index}"
            yield Found(uuid, index, mig, parent_uuid=parent_uuid)
        except DeviceLost as error:
            uuid = siblings.get(index) or f"MIG-lost-{index}"
            yield Found(uuid, index, parent_uuid=parent_uuid, problem=str(error), lost=error.certain)
