"""Placement: which devices a claim gets. Pure: a state in, an allocation out.

Packing is tight, so that whole and linked GPUs stay free for those who need them: shared slots and MIG instances
fill the most used GPU that still has room; several GPUs take NVLink peers of one model; a single GPU is taken where
that breaks the fewest links between free ones.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from nbgpu.core.devices import Device
from nbgpu.core.flavors import Claim, FlavorKind


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """Part `slot` (from 0) of a device that is cut into `slots`; a device held alone is slot 0 of 1."""

    device_uuid: str
    slot: int = 0
    slots: int = 1


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a claim was granted, in the order the server sees it; empty for a CPU flavor."""

    slots: tuple[Slot, ...] = ()

    @property
    def device_uuids(self) -> tuple[str, ...]:
        """The UUIDs of the granted devices."""
        return tuple(slot.device_uuid for slot in self.slots)


@dataclass(frozen=True, slots=True)
class PoolState:
    """The devices there are and the slots that open leases hold."""

    devices: tuple[Device, ...] = ()
    taken: frozenset[Slot] = frozenset()


def allocate(state: PoolState, claim: Claim) -> Allocation | None:
    """Grant `claim` from what is free in `state`; None when nothing fits."""
    if claim.kind is FlavorKind.CPU:
        return Allocation()
    if claim.kind is FlavorKind.GPU:
        chosen = _best_set(_free_gpus(state, claim), claim.gpus)
        return Allocation(tuple(Slot(device.uuid) for device in chosen)) if chosen else None
    slots = _free_slots(state, claim)
    return Allocation((slots[0],)) if slots else None


def count_free(state: PoolState, claim: Claim) -> int | None:
    """How many claims like this could be granted now, one after the other; None where nothing limits it."""
    if claim.kind is FlavorKind.CPU:
        return None
    if claim.kind is FlavorKind.GPU:
        return sum(len(devices) // claim.gpus for devices in _by_model(_free_gpus(state, claim)).values())
    return len(_free_slots(state, claim))


def count_capacity(state: PoolState, claim: Claim) -> int | None:
    """How many claims like this fit the pool when nothing else is held; None where nothing limits it."""
    return count_free(PoolState(devices=state.devices), claim)


def _matches(device: Device, claim: Claim) -> bool:
    return device.problem is None and device.is_model(claim.model)


def _taken_of(state: PoolState) -> dict[str, set[Slot]]:
    taken: defaultdict[str, set[Slot]] = defaultdict(set)
    for slot in state.taken:
        taken[slot.device_uuid].add(slot)
    return taken


def _free_gpus(state: PoolState, claim: Claim) -> list[Device]:
    taken = {slot.device_uuid for slot in state.taken}
    return [
        device
        for device in state.devices
        if _matches(device, claim) and not device.is_mig and not device.mig_enabled and device.uuid not in taken
    ]


def _free_slots(state: PoolState, claim: Claim) -> list[Slot]:
    """The free MIG instances or shared slots that fit, best first."""
    taken = _taken_of(state)
    if claim.kind is FlavorKind.MIG:
        return _free_instances(state, claim, taken)
    linked = {device.uuid: len(device.nvlink_peers) for device in state.devices}
    ranked = sorted(
        (-len(taken[device.uuid]), linked[device.uuid], device.memory_total or 0, device.uuid)
        for device in state.devices
        if _matches(device, claim) and not device.is_mig and not device.mig_enabled
    )
    return [
        slot
        for *_, uuid in ranked
        if all(held.slots == claim.slots for held in taken[uuid])
        for slot in (Slot(uuid, number, claim.slots) for number in range(claim.slots))
        if slot not in taken[uuid]
    ]


def _free_instances(state: PoolState, claim: Claim, taken: dict[str, set[Slot]]) -> list[Slot]:
    busy: defaultdict[str | None, int] = defaultdict(int)
    for device in state.devices:
        busy[device.parent_uuid] += bool(taken[device.uuid])
    ranked = sorted(
        (-busy[device.parent_uuid], device.parent_uuid or "", device.uuid)
        for device in state.devices
        if device.is_mig
        and device.mig_profile == claim.mig_profile
        and _matches(device, claim)
        and not taken[device.uuid]
    )
    return [Slot(uuid) for *_, uuid in ranked]


def _by_model(devices: Iterable[Device]) -> dict[str | None, list[Device]]:
    models: defaultdict[str | None, list[Device]] = defaultdict(list)
    for device in devices:
        models[device.name].append(device)
    return models


def _best_set(free: list[Device], count: int) -> list[Device]:
    """The best `count` GPUs of one model; empty when no model has enough."""
    sets = [
        _grow(seed, devices, count) for devices in _by_model(free).values() if len(devices) >= count for seed in devices
    ]
    return min(sets, key=lambda chosen: _cost(chosen, free), default=[])


def _grow(seed: Device, devices: list[Device], count: int) -> list[Device]:
    """Add to `seed` the GPU with most links into the set, again and again."""
    chosen = [seed]
    rest = [device for device in devices if device is not seed]
    while len(chosen) < count:
        uuids = {device.uuid for device in chosen}
        best = min(
            rest,
            key=lambda device: (
                -len(device.nvlink_peers & uuids),
                device.numa_node != seed.numa_node,
                _order(device),
            ),
        )
        chosen.append(best)
        rest.remove(best)
    return sorted(chosen, key=_order)


def _order(device: Device) -> tuple[int, str]:
    return (device.index if device.index is not None else 1 << 30, device.uuid)


def _cost(chosen: list[Device], free: list[Device]) -> tuple[int, int, int, int, list[tuple[int, str]]]:
    """What a set costs, worst things first: missing links, links cut to other free GPUs, NUMA nodes, size, order."""
    uuids = {device.uuid for device in chosen}
    others = {device.uuid for device in free} - uuids
    inside = sum(len(device.nvlink_peers & uuids) for device in chosen)
    cut = sum(len(device.nvlink_peers & others) for device in chosen)
    nodes = len({device.numa_node for device in chosen})
    memory = sum(device.memory_total or 0 for device in chosen)
    return (-inside, cut, nodes, memory, [_order(device) for device in chosen])
