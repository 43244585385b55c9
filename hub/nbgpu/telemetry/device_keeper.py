"""Takes devices out of service by hand, and gives them back to the pool. What runs on them goes on."""

from collections.abc import Callable, Mapping

from nbgpu.core.errors import DeviceRefused, DriverError
from nbgpu.core.gpu_health import Fault, FaultKind, Quarantine, find_affected
from nbgpu.core.ports import AuditLog, Clock, Inventory, QuarantineStore
from nbgpu.core.texts import Text, enumerate_texts

Object = Callable[[set[str]], object]  # what speaks against the return of devices (UUIDs): a text, or None


class DeviceKeeper:
    """Each call blocks and leaves rows in the audit log."""

    def __init__(self, *, inventory: Inventory, quarantines: QuarantineStore, audit: AuditLog, clock: Clock) -> None:
        self._inventory = inventory
        self._quarantines = quarantines
        self._audit = audit
        self._clock = clock

    def cordon(self, uuid: str, *, by: str, reason: str) -> tuple[str, ...]:
        """Lease a device, and what is cut from it, to nobody from now on; return which that is new for.

        Whoever is on it goes on and is charged as before. Raises DriverError, DeviceRefused; StoreError.
        """
        parents = self._parents()
        if uuid not in parents:
            raise DeviceRefused(Text("This machine has no device %(uuid)s.", uuid=uuid[:96]))
        fault = Fault(FaultKind.CORDON, f"{by} has taken it out of service: {reason}")
        now = self._clock()
        done = [each for each in _affected(uuid, parents) if self._quarantines.put(Quarantine(each, now, fault))]
        if not done:
            raise DeviceRefused(Text("%(uuid)s is out of service already.", uuid=uuid))
        for each in done:
            self._audit.record(actor=by, action="gpu.cordon", subject=each, detail=reason)
        return tuple(done)

    def give_back(
        self, uuid: str, *, by: str, find_objection: Object, reason: str = "", kind: FaultKind | None = None
    ) -> tuple[str, ...]:
        """Lease a device, and what is cut from it, again; return which. With `kind` only what is held back so.

        Raises DeviceRefused: it is not held back, or something speaks against it; StoreError.
        """
        held_back = {name: each for name, each in self._quarantines.open().items() if kind in (None, each.fault.kind)}
        wanted = [each for each in _affected(uuid, self._parents(strict=False)) if each in held_back]
        if not wanted:
            others = enumerate_texts(held_back) if held_back else Text("no device is")
            refusal = Text("%(uuid)s is not in quarantine. In quarantine: %(others)s.", uuid=uuid[:96], others=others)
            raise DeviceRefused(refusal)
        if (problem := find_objection(set(wanted))) is not None:
            refusal = Text("%(uuid)s stays in quarantine. It was read again: %(problem)s", uuid=uuid, problem=problem)
            raise DeviceRefused(refusal)
        now = self._clock()
        done = [each for each in wanted if self._quarantines.give_back(each, at=now, by=by)]
        for each in done:
            detail = f"had: {held_back[each].fault.cause}"
            detail = f"{reason} ({detail})" if reason else detail
            self._audit.record(actor=by, action="gpu.return", subject=each, detail=detail)
        return tuple(done)

    def _parents(self, *, strict: bool = True) -> dict[str, str | None]:
        """Return each device that the driver shows, with the GPU that it is cut from. Raises DriverError if strict."""
        snapshot = self._inventory.snapshot()
        if strict and snapshot.problem is not None:
            raise DriverError(snapshot.problem)
        return {device.uuid: device.parent_uuid for device in snapshot.devices}


def _affected(uuid: str, parents: Mapping[str, str | None]) -> tuple[str, ...]:
    return find_affected(uuid, {each: parent for each, parent in parents.items() if parent is not None})
