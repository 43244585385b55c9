"""Watches the devices' health: a device at fault is quarantined, and comes back when it is clean and may."""

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from nbgpu.core.devices import Readings
from nbgpu.core.gpu_health import (
    NO_IDENTITY,
    DeviceHealth,
    Fault,
    FaultKind,
    Quarantine,
    find_affected,
    judge,
    judge_missing,
    may_return,
)
from nbgpu.core.ports import AuditLog, Clock, QuarantineStore
from nbgpu.core.usage import Holding

ACTOR = "sampler"

log = logging.getLogger("nbgpu.gpus")


@dataclass(frozen=True, slots=True)
class _Case:
    """A fault that is not in the database yet."""

    quarantine: Quarantine
    session_id: str | None = None  # the one that lost it; None: all that hold it


class GpuWatch:
    """Judges readings. Safe to use from many threads; what it finds while the database is away is not forgotten."""

    def __init__(
        self,
        *,
        quarantines: QuarantineStore,
        audit: AuditLog,
        known: Mapping[str, DeviceHealth],
        return_after: timedelta | None,
        clock: Clock,
    ) -> None:
        """Take what an earlier run knew of the devices; `return_after` None: an administrator returns them."""
        self._quarantines = quarantines
        self._audit = audit
        self._health = dict(known)
        self._return_after = return_after
        self._clock = clock
        self._lock = threading.Lock()
        self._cases: dict[tuple[str, str | None], _Case] = {}
        self._kept: set[tuple[str, str | None, FaultKind]] = set()  # what is in the database; faults repeat themselves

    def marks(self) -> dict[str, DeviceHealth]:
        """Return what is known of each device, for the next run."""
        with self._lock:
            return dict(self._health)

    def judge(self, readings: Readings, holdings: Iterable[Holding]) -> frozenset[str]:
        """Judge all devices; return those that these readings show at fault. Asks nobody."""
        with self._lock:
            faults = self._judge(readings, {each.metered.device_uuid for each in holdings})
            affected = [(each, uuid, fault) for uuid, fault in faults for each in find_affected(uuid, readings.parents)]
            for each, uuid, fault in affected:
                last_good_at = self._health.get(uuid, DeviceHealth()).last_good_at
                case = _Case(Quarantine(each, self._clock(), fault, last_good_at=last_good_at))
                self._cases.setdefault((each, None), case)
            return frozenset(each for each, _, _ in affected)

    def keep(self) -> None:
        """Bring what was found into the database, and return what may come back. Raises StoreError: then later."""
        with self._lock:
            known = self._quarantines.open()
            if self._close_cases(known):
                known = self._quarantines.open()
            self._return(known)

    def report_lost(self, session_id: str, quarantine: Quarantine) -> None:
        """Note that a session's container has lost a device that the machine still has."""
        with self._lock:
            self._cases[quarantine.device_uuid, session_id] = _Case(quarantine, session_id)

    def _judge(self, readings: Readings, held: set[str]) -> list[tuple[str, Fault]]:
        found: list[tuple[str, Fault | None]] = []
        for sample in readings.samples:
            uuid = sample.device_uuid
            if not uuid.startswith(NO_IDENTITY):
                xids = readings.xids.get(uuid, ())
                self._health[uuid], fault = judge(self._health.get(uuid, DeviceHealth()), sample, xids)
                found.append((uuid, fault))
        for uuid in held - {sample.device_uuid for sample in readings.samples}:
            self._health[uuid], fault = judge_missing(self._health.get(uuid, DeviceHealth()))
            found.append((uuid, fault))
        return [(uuid, fault) for uuid, fault in found if fault is not None]

    def _close_cases(self, known: Mapping[str, Quarantine]) -> bool:
        """Bring what was found into the database; whether anything was new to it."""
        self._kept = {each for each in self._kept if each[0] in known}
        new = False
        for key, case in list(self._cases.items()):
            kept = (*key, case.quarantine.fault.kind)
            if kept not in self._kept:
                self._put(case)
                self._kept.add(kept)
                new = True
            del self._cases[key]
        return new

    def _put(self, case: _Case) -> None:
        uuid, fault = case.quarantine.device_uuid, case.quarantine.fault
        if fault.kind is FaultKind.GONE and uuid.startswith("MIG-"):  # cut anew: there is nothing to hold back
            self._quarantines.mark_lost(case.quarantine)
        elif self._quarantines.put(case.quarantine, case.session_id):
            log.error("%s is in quarantine: %s", uuid, fault.cause)
            self._audit.record(actor=ACTOR, action="gpu.quarantine", subject=uuid, detail=fault.cause)

    def _return(self, known: Mapping[str, Quarantine]) -> None:
        lost = self._quarantines.lost_devices() if known else frozenset()
        for uuid, quarantine in known.items():
            health, now = self._health.get(uuid, DeviceHealth()), self._clock()
            if not may_return(quarantine, health, now, return_after=self._return_after, in_use=uuid in lost):
                continue
            if self._quarantines.give_back(uuid, at=now, by=ACTOR):
                log.warning("%s is back from quarantine: it reads clean", uuid)
                self._audit.record(actor=ACTOR, action="gpu.return", subject=uuid, detail="it reads clean")
