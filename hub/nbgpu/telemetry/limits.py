"""Keeping limits: who is to be stopped is told in time, and stopped when it is due.

A stop goes through the hub, so that its pages know; while the hub gives no answer the container is ended directly,
since money must not run on for that.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, tzinfo
from typing import Protocol

from nbgpu.core.authorize import Cause
from nbgpu.core.errors import EngineError, HubRefused, HubUnavailable
from nbgpu.core.leases import ServerRef
from nbgpu.core.periods import to_instant, to_seconds
from nbgpu.core.ports import AuditLog, Clock, Fleet, LeaseStore
from nbgpu.core.stops import IDLE_CAUSES, Kept, PlannedStop, Stop, describe_stop

PERIOD = 15.0  # seconds between two looks: a budget is overspent for so long at most, and its grace
STOPS = 8  # at one time
CULLER_HAS = 120  # seconds: an idle server is the culler's to stop; what it has not stopped by then is ours
ACTOR = "limits"

log = logging.getLogger("nbgpu.limits")


class Limits(Protocol):
    """What knows who is to be stopped. May block."""

    def keep(self) -> Kept:
        """Work out anew what each running session may run; return what there is to tell and to do."""

    def is_idle_still(self, session_id: str) -> bool:
        """Return whether a session is to be stopped now for being idle, as of this moment."""


class Notices(Protocol):
    """Tells running servers. May block."""

    def deliver(self, session_id: str, text: str, stop_at: datetime | None, cause: str | None) -> bool:
        """Tell a session's server; without `stop_at` that a stop was called off. False when it does not run.

        Raises EngineError.
        """


class StopsServers(Protocol):
    """The hub. May block."""

    def stop(self, server: ServerRef) -> None:
        """Have a server stopped. Raises HubUnavailable; HubRefused where it has none."""

    def start_as(self, server: ServerRef, flavor: str, image: str) -> None:
        """Have a server started with a flavor and image. Raises HubUnavailable; HubRefused when it never will be."""


class LimitKeeper:
    """Keeps the limits of a deployment; `tick` blocks: use a thread."""

    def __init__(
        self,
        *,
        limits: Limits,
        notices: Notices,
        hub: StopsServers,
        fleet: Fleet,
        leases: LeaseStore,
        audit: AuditLog,
        clock: Clock,
        zone: tzinfo,
        watch_clock: Callable[[], object] = lambda: None,
    ) -> None:
        """Take the parties; `watch_clock` notes a step of the clock, which must not be taken for time that went."""
        self._limits = limits
        self._notices = notices
        self._hub = hub
        self._fleet = fleet
        self._leases = leases
        self._audit = audit
        self._clock = clock
        self._zone = zone
        self._watch_clock = watch_clock
        self._told: dict[str, tuple[Stop, int]] = {}  # what each session's server was told last, and how many times
        self._refused: set[str] = set()  # sessions that were moved, and do not go on as the hub will not have it
        self._to_call_off: set[str] = set()  # sessions that are to be told that they go on
        self._stopped: set[str] = set()  # sessions whose stop is in the audit log

    def tick(self) -> None:
        """Look once; tell and stop who is due. What fails is tried again at the next look."""
        self._watch_clock()
        kept, now = self._limits.keep(), to_seconds(self._clock())
        self._to_call_off |= set(kept.called_off)
        planned = {each.session_id for each in kept.stops}
        self._call_off(planned)
        for each in kept.stops:
            if self._told.get(each.session_id) != (each.stop, each.told_times(now)):
                self._tell(each, now)
        idle = [each for each in kept.stops if each.stop.cause in IDLE_CAUSES and _is_left(each, now)]
        due = [each for each in kept.stops if each.stop.cause not in IDLE_CAUSES and each.stop.at <= now]
        due += idle[:STOPS]  # no more in one turn: what costs money must not wait for them
        if due:  # all at a time: a server that takes long to end keeps no other running
            with ThreadPoolExecutor(STOPS, thread_name_prefix="stop") as pool:
                list(pool.map(self._stop, due))
        self._told = {each: told for each, told in self._told.items() if each in planned}
        self._stopped &= planned
        self._start_moved(kept.moved)

    def _tell(self, planned: PlannedStop, now: int) -> None:
        stop = planned.stop
        text = str(describe_stop(stop, self._zone, planned.move))
        if self._deliver(planned.session_id, text, to_instant(stop.at), stop.cause):
            self._told[planned.session_id] = (stop, planned.told_times(now))
            log.info("%s was told: %s", planned.server, text)

    def _call_off(self, planned: Collection[str]) -> None:
        self._to_call_off -= set(planned)
        self._to_call_off = {each for each in self._to_call_off if not self._deliver(each, "", None, None)}

    def _deliver(self, session_id: str, text: str, stop_at: datetime | None, cause: Cause | None) -> bool:
        """Whether there is nothing left to tell: it was told, or its server does not run."""
        try:
            self._notices.deliver(session_id, text, stop_at, cause)
        except EngineError as error:
            log.warning("Session %s could not be told, it is tried again: %s", session_id, error)
            return False
        return True

    def _stop(self, planned: PlannedStop) -> None:
        if planned.stop.cause in IDLE_CAUSES and not self._limits.is_idle_still(planned.session_id):
            return  # meanwhile it was extended, worked in, or ended
        if planned.session_id not in self._stopped:
            self._audit.record(
                actor=ACTOR,
                action=f"stop.{planned.stop.cause}",
                subject=str(planned.server),
                detail=f"session {planned.session_id}, due at {to_instant(planned.stop.at).isoformat()}",
            )
            self._stopped.add(planned.session_id)
        try:
            self._hub.stop(planned.server)
        except HubRefused as error:
            log.warning("The hub has no server %s to stop, the reconciler will see to it: %s", planned.server, error)
        except HubUnavailable as error:
            if planned.stop.cause in IDLE_CAUSES:  # no money runs out by it: the hub can have its time
                log.warning("%s is idle and can't be stopped now: %s", planned.server, error)
                return
            log.warning("%s is ended past the hub: %s", planned.server, error)
            self._end(planned.session_id)

    def _start_moved(self, moved: Iterable[PlannedStop]) -> None:
        """Have the servers started that go on without a GPU; what is refused once is left to its person."""
        sessions = {each.session_id: each for each in moved}
        self._refused &= sessions.keys()
        for session_id, each in sessions.items():
            if each.move is None or session_id in self._refused:
                continue
            try:
                self._hub.start_as(each.server, each.move.flavor, each.move.image)
            except HubUnavailable as error:
                log.info("%s can't be started as %s yet: %s", each.server, each.move.flavor, error)
            except HubRefused as error:
                log.warning("%s does not go on as %s: %s", each.server, each.move.flavor, error)
                self._refused.add(session_id)
            else:
                log.info("%s goes on as %s", each.server, each.move.flavor)

    def _end(self, session_id: str) -> None:
        try:
            container = next((each for each in self._fleet.containers() if each.session_id == session_id), None)
            ended_at = self._fleet.end(container.id) if container is not None else None
        except EngineError as error:
            log.warning("Session %s could not be ended, it is tried again: %s", session_id, error)
            return
        self._leases.release(session_id, "stopped", ended_at)


def _is_left(planned: PlannedStop, now: int) -> bool:
    """Whether an idle session is this keeper's to stop: to be moved, or left by the culler."""
    return planned.stop.at + (CULLER_HAS if planned.move is None else 0) <= now
