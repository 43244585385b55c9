"""The reconciler: compares lease rows, containers and the hub, and mends what disagrees.

It runs at hub start, each minute, and after every doubt. A comparison reads all leases first, then the containers,
then the hub: what the hub then does not know of a lease is no start that just began. Each repair reads the session's
facts once more, and acts on ids, never on names, so that it can't hit the next life of a server.
"""

import asyncio
import logging
import math
import time
from collections.abc import Iterable

from prometheus_client import Counter

from nbgpu.core.errors import HubRefused, NbgpuError
from nbgpu.core.leases import Lease, LeaseState
from nbgpu.core.ports import AuditLog, Fleet, HubView, Inventory, LeaseStore
from nbgpu.core.reconcile import ContainerFact, Finding, HubServer, Repair, judge
from nbgpu.telemetry.workqueue import WorkQueue

PERIOD = 60.0  # seconds between two comparisons
LIST_LASTS = 5.0  # seconds
ACTOR = "reconciler"
_ALL = "\0"  # the key that stands for a comparison of everything: no label of a container can be it

log = logging.getLogger("nbgpu.reconciler")
# In the hub's process, so it is among the hub's own metrics.
REPAIRS = Counter("nbgpu_reconciler_repairs", "Sessions that the reconciler has mended", ["repair"])


class Reconciler:
    """Compares and mends; every method blocks: use a thread."""

    def __init__(
        self, *, leases: LeaseStore, fleet: Fleet, hub: HubView, audit: AuditLog, inventory: Inventory
    ) -> None:
        self._leases = leases
        self._fleet = fleet
        self._hub = hub
        self._audit = audit
        self._inventory = inventory
        self._missing: frozenset[tuple[str, str]] = frozenset()  # (session, device) as of the last look
        self._servers: tuple[HubServer, ...] = ()
        self._listed_at = -math.inf

    def compare(self) -> tuple[Finding, ...]:
        """Return every session in disagreement. Raises when one of the three can't be asked."""
        leases = {lease.session_id: lease for lease in self._leases.open_leases()}
        containers = {each.session_id: each for each in self._fleet.containers()}
        servers = self._list_servers()
        sessions = dict.fromkeys([*leases, *containers])
        verdicts = ((each, *_judge(leases.get(each), containers.get(each), servers)) for each in sessions)
        return tuple(Finding(each, repair, why) for each, repair, why in verdicts if repair is not Repair.NOTHING)

    def mend(self, session_id: str) -> Finding | None:
        """Look at one session again and mend it; return what was done. Raises when it could not be."""
        lease = self._leases.find_open(session_id)
        container = self._fleet.find(session_id)
        repair, reason = judge(lease, container, self._find_server(lease, session_id))
        if repair is Repair.ADOPT and lease is not None:
            repair, reason = self._adopt(lease, reason)
        ended_at = None
        if repair in (Repair.UNDO, Repair.REMOVE) and container is not None:
            ended_at = self._fleet.end(container.id) or container.finished_at
        if repair in (Repair.UNDO, Repair.RELEASE):
            was_ready = lease is None or lease.state is not LeaseState.PENDING
            self._leases.release(session_id, f"reconciled: {reason}", ended_at, billable=was_ready)
        if repair is Repair.NOTHING:
            return None
        REPAIRS.labels(repair).inc()
        subject = str(lease.server) if lease is not None else session_id
        self._audit.record(
            actor=ACTOR, action=f"reconcile.{repair}", subject=subject, detail=f"session {session_id}: {reason}"
        )
        return Finding(session_id, repair, reason)

    def _find_server(self, lease: Lease | None, session_id: str) -> HubServer | None:
        """What the hub says of a session's server now.

        Where no lease names the server, the last list of all will do for a moment: the hub learns of a session only
        with its lease, so that none that it did not know then is its own now.
        """
        if lease is not None:
            return self._hub.find(lease.server)
        if time.monotonic() - self._listed_at > LIST_LASTS:
            self._list_servers()
        return next((each for each in self._servers if each.session_id == session_id), None)

    def _list_servers(self) -> tuple[HubServer, ...]:
        self._servers = self._hub.servers()
        self._listed_at = time.monotonic()
        return self._servers

    def drop_vanished(self) -> tuple[tuple[str, str], ...]:
        """Take devices that the driver has not had for two looks in a row out of leases; return (session, device).

        MIG instances vanish at a reboot or when an admin cuts a GPU anew. A driver that can't be asked says nothing;
        nor does one with a faulty device, which it may not know by its UUID any more.
        """
        leases, snapshot = self._leases.open_leases(), self._inventory.snapshot()
        if snapshot.problem is not None or any(device.problem is not None for device in snapshot.devices):
            return ()
        missing = frozenset(
            (lease.session_id, uuid)
            for lease in leases
            for uuid in lease.allocation.device_uuids
            if uuid not in snapshot.by_uuid
        )
        gone = sorted(self._missing & missing)
        self._missing = missing
        servers = {lease.session_id: str(lease.server) for lease in leases}
        for session_id, uuid in gone:
            if self._leases.drop_device(session_id, uuid):
                detail = f"session {session_id}: the driver no longer has {uuid}"
                self._audit.record(actor=ACTOR, action="lease.device_gone", subject=servers[session_id], detail=detail)
        return tuple(gone)

    def _adopt(self, lease: Lease, reason: str) -> tuple[Repair, str]:
        """Hand a running server back to the hub; one that the hub will never have again is undone."""
        try:
            self._hub.start(lease)
        except HubRefused as refusal:
            return Repair.UNDO, f"{reason}, and will not take back: {refusal}"
        return Repair.ADOPT, reason


def _judge(lease: Lease | None, container: ContainerFact | None, servers: Iterable[HubServer]) -> tuple[Repair, str]:
    if lease is not None:
        hub = next((each for each in servers if each.server == lease.server), None)
    else:
        wanted = container.session_id if container is not None else None
        hub = next((each for each in servers if each.session_id == wanted), None)
    return judge(lease, container, hub)


def _describe(key: str) -> str:
    return "all sessions" if key == _ALL else f"session {key}"


class ReconcileLoop:
    """Runs a reconciler beside the hub's event loop."""

    def __init__(self, reconciler: Reconciler, *, period: float = PERIOD) -> None:
        self._reconciler = reconciler
        self._period = period
        self._queue = WorkQueue()
        self._loop = asyncio.get_running_loop()

    def doubt(self, session_id: str) -> None:
        """Have a session looked at soon; callable from any thread."""
        self._loop.call_soon_threadsafe(self._queue.put, session_id)

    async def run(self) -> None:
        """Compare now and each period, and mend, until cancelled."""
        ticker = asyncio.ensure_future(self._tick())
        try:
            while True:
                await self._work(await self._queue.take())
        finally:
            ticker.cancel()
            self._queue.close()

    async def _tick(self) -> None:
        while True:
            self._queue.put(_ALL)
            await asyncio.sleep(self._period)

    async def _work(self, key: str) -> None:
        try:
            if key == _ALL:
                await self._compare()
            else:
                await self._mend(key)
            self._queue.forget(key)
        except NbgpuError as error:
            log.warning("Not reconciled now (%s): %s", _describe(key), error)
            self._queue.put_back(key)
        except Exception:
            log.exception("Reconciling %s failed", _describe(key))  # the loop must outlive any surprise
            self._queue.put_back(key)
        finally:
            self._queue.done(key)

    async def _compare(self) -> None:
        for finding in await asyncio.to_thread(self._reconciler.compare):
            self._queue.put(finding.session_id)
        for session_id, uuid in await asyncio.to_thread(self._reconciler.drop_vanished):
            log.warning("Session %s lost %s: the driver no longer has it", session_id, uuid)

    async def _mend(self, session_id: str) -> None:
        finding = await asyncio.to_thread(self._reconciler.mend, session_id)
        if finding is not None:
            log.warning("Reconciled session %s: %s (%s)", session_id, finding.repair, finding.reason)
