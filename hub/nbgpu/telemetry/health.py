"""The inventory as it may be leased: devices with leftovers are held back until they are clean."""

import logging
import math
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime

from nbgpu.core.devices import InventorySnapshot, UsageSample
from nbgpu.core.errors import EngineError
from nbgpu.core.gpu_health import Quarantine
from nbgpu.core.health import hold_back_quarantined, hold_back_strays, quarantine_used
from nbgpu.core.ports import Fleet, Inventory, LeaseStore, QuarantineStore

ENGINE_WAIT = 0.1  # seconds
READINGS_LAST = 1.0  # seconds: many starts at once ask the driver once

log = logging.getLogger("nbgpu.health")


class CheckedInventory:
    """An inventory whose snapshots carry what readings and leases say of each device."""

    def __init__(
        self, inventory: Inventory, leases: LeaseStore, fleet: Fleet, quarantines: QuarantineStore | None = None
    ) -> None:
        self._inventory = inventory
        self._leases = leases
        self._fleet = fleet
        self._quarantines = quarantines
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="fleet")
        self._asked: Future[None] | None = None
        self._given: tuple[str, ...] = ()  # devices of the servers that ran at the last reading
        self._lock = threading.Lock()
        self._read_at = -math.inf
        self._snapshot = InventorySnapshot(datetime.min.replace(tzinfo=UTC))
        self._samples: tuple[UsageSample, ...] = ()
        self._held_back: Mapping[str, Quarantine] = {}
        self._told: frozenset[tuple[str, str]] = frozenset()  # problems that the log has already

    def snapshot(self) -> InventorySnapshot:
        """Return all devices; one in use without a lease has a problem. Readings are at most a second old.

        An old reading may show what a server that just ended had in use: nothing is held back without a fresh one.
        """
        with self._lock:
            fresh = self._read_if_older(READINGS_LAST)
            checked = self._check()
            if not fresh and checked.devices != self._snapshot.devices:
                self._read_if_older(0)
                checked = self._check()
        self._tell(checked)
        return checked

    def _read_if_older(self, seconds: float) -> bool:
        """Read the driver unless the last readings are younger than that; whether it was read."""
        now = time.monotonic()
        if now - self._read_at <= seconds:
            return False
        self._snapshot = self._inventory.snapshot()
        self._samples = () if self._snapshot.problem is not None else self._inventory.sample()
        self._held_back = self._quarantines.open() if self._quarantines is not None else {}
        self._ask_given()
        self._read_at = now
        return True

    def _ask_given(self) -> None:
        """Have the engine asked which devices running servers were given; as before while it can't be.

        It is waited for shortly, and not at all while an earlier question hangs: every page that shows a device comes
        by here. A late answer counts from then on.
        """
        if self._asked is not None and not self._asked.done():
            return
        self._asked = self._asking.submit(self._learn_given)
        wait([self._asked], timeout=ENGINE_WAIT)

    def _learn_given(self) -> None:
        try:
            found = self._fleet.containers()
        except EngineError:
            return
        self._given = tuple(uuid for each in found if each.running for uuid in each.device_uuids)

    def _check(self) -> InventorySnapshot:
        # Leases are read last: a device that was leased since the readings counts as held.
        held = self._leases.held_devices()
        snapshot = hold_back_quarantined(self._snapshot, self._held_back)
        return hold_back_strays(quarantine_used(snapshot, self._samples, held), self._given, held)

    def sample(self) -> tuple[UsageSample, ...]:
        """Return one reading of each device."""
        return self._inventory.sample()

    def _tell(self, snapshot: InventorySnapshot) -> None:
        """Log each problem once, until it changes."""
        problems = frozenset((each.uuid, each.problem) for each in snapshot.devices if each.problem is not None)
        for uuid, problem in sorted(problems - self._told):
            log.warning("%s is not leased: %s", uuid, problem)
        self._told = problems
