"""The inventory as it may be leased: devices with leftovers are held back until they are clean."""

import logging

from nbgpu.core.devices import InventorySnapshot, UsageSample
from nbgpu.core.health import quarantine_used
from nbgpu.core.ports import Inventory, LeaseStore

log = logging.getLogger("nbgpu.health")


class CheckedInventory:
    """An inventory whose snapshots carry what readings and leases say of each device."""

    def __init__(self, inventory: Inventory, leases: LeaseStore) -> None:
        self._inventory = inventory
        self._leases = leases
        self._told: frozenset[tuple[str, str]] = frozenset()  # problems that the log has already

    def snapshot(self) -> InventorySnapshot:
        """Return all devices; one in use without a lease has a problem."""
        snapshot = self._inventory.snapshot()
        if snapshot.problem is not None:
            return snapshot
        samples = self._inventory.sample()
        # Leases are read last: a device that was leased since the readings counts as held.
        held = {uuid for lease in self._leases.open_leases() for uuid in lease.allocation.device_uuids}
        checked = quarantine_used(snapshot, samples, held)
        self._tell(checked)
        return checked

    def sample(self) -> tuple[UsageSample, ...]:
        """Return one reading of each device."""
        return self._inventory.sample()

    def _tell(self, snapshot: InventorySnapshot) -> None:
        """Log each problem once, until it changes."""
        problems = frozenset((each.uuid, each.problem) for each in snapshot.devices if each.problem is not None)
        for uuid, problem in sorted(problems - self._told):
            log.warning("%s is not leased: %s", uuid, problem)
        self._told = problems
