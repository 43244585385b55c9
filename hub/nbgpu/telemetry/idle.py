"""The watch over idle servers: brings signals together, has them judged, and notes who is to be stopped.

Who is told and stopped is in `limits`: an idle server is one more cause there.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from nbgpu.core.activity import Reading, Report, Signal, Track, merge, note_reading, note_report
from nbgpu.core.authorize import Cause
from nbgpu.core.culling import Look, State, judge, plan_idle_stop
from nbgpu.core.idle_policy import IdleSite
from nbgpu.core.periods import to_seconds
from nbgpu.core.ports import Clock
from nbgpu.store.idle import Watched
from nbgpu.store.idle_rows import IdleEntry
from nbgpu.telemetry.gauges import Gauges

TURN = 1.0  # seconds between two questions whether it is time for a look
HURRIED = 5.0  # seconds between two looks at least
_JUST_NOW = 60.0  # seconds
MOST_REPORTS = 50_000  # that wait for a look

log = logging.getLogger("nbgpu.idle")


class IdleStore(Protocol):
    """Where verdicts are kept. May block; raises StoreError."""

    def watched(self) -> Sequence[Watched]:
        """Return the running sessions for which a policy holds."""

    def write(self, entries: Iterable[IdleEntry], now: int) -> None:
        """Take the place of what was found before."""


class IdleWatch:
    """Looks at all servers; `turn` blocks and is for one thread, `report` is for any and quick."""

    def __init__(
        self,
        *,
        store: IdleStore,
        gauges: Gauges,
        site: IdleSite,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._gauges = gauges
        self._site = site
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._reports: dict[str, tuple[int, Report]] = {}  # the newest by session, with its time
        self._warned: set[str] = set()  # sessions whose next act hurries the next look
        self._due_at = 0.0
        self._looked_at = float("-inf")
        self._gap = site.stale
        self.verdicts: Mapping[State, int] = {}  # of the last look: how many of each
        self._hurries = False

    def report(self, session_id: str, report: Report) -> None:
        """Take a server's report. Where it calls off a stop that is decided, the next look is at once."""
        with self._lock:
            if session_id in self._reports or len(self._reports) < MOST_REPORTS:
                earlier = self._reports.get(session_id)
                now = to_seconds(self._clock())
                self._reports[session_id] = (now, merge(earlier[1], report) if earlier is not None else report)
            if report.person_ago is not None and report.person_ago < _JUST_NOW and session_id in self._warned:
                self._warned.discard(session_id)  # once between two looks that are due
                self._hurries = True

    def turn(self) -> None:
        """Look, if it is time. Raises StoreError: what was told meanwhile then counts as not told."""
        now = self._monotonic()
        is_due = now >= self._due_at
        if is_due or (self._hurries and now >= self._looked_at + HURRIED):
            self._hurries, self._looked_at = False, now
            if is_due:
                self._due_at = now + self._site.every
            warned = self.look()
            if is_due:
                self._warned = warned

    def look(self) -> set[str]:
        """Judge all servers; return the sessions that are to be stopped as idle, which a person's act would save."""
        gap, self._gap = self._gap, 0  # should this look be lost, the next one begins anew
        watched, now = self._store.watched(), to_seconds(self._clock())
        readings = self._gauges.take({each.session_id: each.devices for each in watched})
        with self._lock:
            reports, self._reports = self._reports, {}
        entries = [self._judge(each, readings, reports, now, gap) for each in watched]
        self._store.write(entries, now)
        self._gap = self._site.stale
        self.verdicts = Counter(each.verdict.state for each in entries)
        return {each.session_id for each in entries if each.stop is not None and each.stop.cause is Cause.IDLE}

    def _judge(
        self,
        server: Watched,
        readings: Mapping[str, Sequence[Reading]],
        reports: Mapping[str, tuple[int, Report]],
        now: int,
        gap: int,
    ) -> IdleEntry:
        tracks: Mapping[Signal, Track] = server.tracks
        for reading in readings.get(server.session_id, ()):
            tracks = note_reading(tracks, reading, server.policy.thresholds, gap)
        if server.session_id in reports:
            at, report = reports[server.session_id]
            tracks = note_report(tracks, report, at, gap)
        look = Look(
            now=now,
            stale=self._site.stale,
            has_gpu=server.has_gpu,
            zone=self._site.zone,
            extension=server.extension,
        )
        verdict = judge(tracks, server.policy, look)
        stop = plan_idle_stop(verdict, server.policy, server.decided, now=now, zone=self._site.zone)
        if stop != server.decided:
            log.info("%s is %s; to be stopped: %s", server.server, verdict.state, stop)
        return IdleEntry(session_id=server.session_id, tracks=tracks, verdict=verdict, stop=stop)
