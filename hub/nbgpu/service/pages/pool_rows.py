"""The pool's page as plain values: each GPU, what is cut from it, and how it is. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from nbgpu.core.devices import Device, UsageSample
from nbgpu.core.flavors import Flavor
from nbgpu.core.gpu_health import FaultKind, Quarantine
from nbgpu.core.leases import ServerRef
from nbgpu.core.pool import Holder, Pool
from nbgpu.core.texts import Text

FREE, HELD, PARTLY, CUT = "free", "held", "partly", "cut"
OUT, FAULTY, NOT_LEASED = "out", "faulty", "not-leased"
STATES = {
    FREE: Text("free"),
    HELD: Text("in use"),
    PARTLY: Text("partly free"),
    CUT: Text("in MIG mode"),
    OUT: Text("out of service"),
    FAULTY: Text("in quarantine"),
    NOT_LEASED: Text("not leased"),
}
_NOT_SHOWN = Text("The driver does not show it.")
_LEASABLE = frozenset({FREE, HELD, PARTLY})


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderRow:
    """A server on a device."""

    server: ServerRef
    flavor: str
    since: datetime
    is_lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """One GPU or MIG instance; what it does not report is None."""

    uuid: str
    name: str | None  # of a MIG instance its profile
    index: int | None
    state: str  # one of STATES
    why: object  # why it is not leased: a text, or None
    since: datetime | None  # since when it is held back
    holders: tuple[HolderRow, ...]
    slots: int  # into which it is cut for who shares it; 1: it is held alone, or not at all
    is_held_back: bool
    utilization: int | None  # percent
    memory_used: int | None  # bytes
    memory_total: int | None
    temperature: int | None  # °C
    power: float | None  # W
    power_limit: float | None
    parts: "tuple[DeviceRow, ...]" = ()  # its MIG instances

    @property
    def state_text(self) -> Text:
        """How it is."""
        return STATES[self.state]


def build_rows(pool: Pool, flavors: Mapping[str, Flavor]) -> tuple[DeviceRow, ...]:
    """Return a row for each GPU with its MIG instances; those that only a lease or a quarantine knows come last."""
    parts: dict[str, list[DeviceRow]] = {}
    rows = []
    for device in pool.devices:
        row = _build(device, pool, flavors)
        if device.parent_uuid is None:
            rows.append(row)
        else:
            parts.setdefault(device.parent_uuid, []).append(row)
    known = {device.uuid for device in pool.devices}
    unseen = [uuid for uuid in {**pool.held_back, **pool.holders} if uuid not in known]
    rows = [replace(row, parts=tuple(parts.pop(row.uuid, ()))) for row in rows]
    orphans = [row for each in parts.values() for row in each]
    gone = [_build(Device(uuid), pool, flavors, missing=_NOT_SHOWN) for uuid in unseen]
    return (*rows, *orphans, *gone)


def count_states(rows: Iterable[DeviceRow]) -> dict[str, int]:
    """Return how many of what can be leased, or could be if it were well, are in each state."""
    counts = dict.fromkeys(STATES, 0)
    for row in rows:
        for each in row.parts or (row,):
            counts[each.state] += 1
    return {state: count for state, count in counts.items() if count}


def _build(device: Device, pool: Pool, flavors: Mapping[str, Flavor], *, missing: Text | None = None) -> DeviceRow:
    holders = pool.holders.get(device.uuid, ())
    quarantine = pool.held_back.get(device.uuid)
    sample = pool.samples.get(device.uuid) or UsageSample(device.uuid, datetime.min)
    state = _find_state(device, holders, quarantine, missing)
    return DeviceRow(
        uuid=device.uuid,
        name=device.mig_profile or device.name,
        index=device.index if not device.is_mig else None,
        state=state,
        why=_why(device, quarantine, missing, state),
        since=quarantine.since if quarantine is not None else None,
        holders=tuple(_build_holder(each, flavors) for each in holders),
        slots=max((each.slots for each in holders), default=1),
        is_held_back=quarantine is not None,
        utilization=sample.gpu_utilization,
        memory_used=sample.memory_used,
        memory_total=device.memory_total if device.memory_total is not None else sample.memory_total,
        temperature=sample.temperature,
        power=sample.power,
        power_limit=sample.power_limit,
    )


def _find_state(
    device: Device, holders: tuple[Holder, ...], quarantine: Quarantine | None, missing: Text | None
) -> str:
    if quarantine is not None:
        return OUT if quarantine.fault.kind is FaultKind.CORDON else FAULTY
    if missing is not None or device.problem is not None:
        return NOT_LEASED
    if device.mig_enabled:
        return CUT
    if not holders:
        return FREE
    return PARTLY if len(holders) < holders[0].slots else HELD


def _why(device: Device, quarantine: Quarantine | None, missing: Text | None, state: str) -> object:
    if state in _LEASABLE or state == CUT:
        return None
    if quarantine is None:
        return missing or device.problem
    if missing is not None:
        return Text("%(cause)s %(missing)s", cause=quarantine.fault.cause, missing=missing)
    return quarantine.fault.cause


def _build_holder(holder: Holder, flavors: Mapping[str, Flavor]) -> HolderRow:
    flavor = flavors.get(holder.flavor)
    return HolderRow(
        server=holder.server,
        flavor=flavor.display_name if flavor is not None else holder.flavor,
        since=holder.since,
        is_lost=holder.is_lost,
    )
