"""The pool as it is at one moment: devices, what they report, who holds them, which are held back. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nbgpu.core.devices import Device, UsageSample
from nbgpu.core.gpu_health import Quarantine
from nbgpu.core.leases import Lease, ServerRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A server that holds a device, or a slot of it."""

    server: ServerRef
    flavor: str  # slug
    since: datetime
    slots: int  # into which the device is cut; 1: held alone
    is_lost: bool  # the device failed while the server held it


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """All that is known of a machine's devices."""

    devices: tuple[Device, ...]  # as the driver last showed them
    problem: str | None = None  # why the driver can't be asked now; `devices` is then of the past
    samples: Mapping[str, UsageSample] = field(default_factory=dict)  # by UUID
    sampled_at: datetime | None = None  # None: not yet
    is_stale: bool = False  # the readings are of the past
    holders: Mapping[str, tuple[Holder, ...]] = field(default_factory=dict)  # by UUID
    held_back: Mapping[str, Quarantine] = field(default_factory=dict)  # by UUID


def find_holders(leases: Iterable[Lease]) -> dict[str, tuple[Holder, ...]]:
    """Return who holds each device, by UUID, those first that came first; a shared one has several."""
    found: dict[str, tuple[Holder, ...]] = {}
    for lease in leases:
        for slot in lease.allocation.slots:
            holder = Holder(
                server=lease.server,
                flavor=lease.flavor,
                since=lease.active_at or lease.created_at,
                slots=slot.slots,
                is_lost=slot.device_uuid in lease.lost_devices,
            )
            found[slot.device_uuid] = (*found.get(slot.device_uuid, ()), holder)
    return found
