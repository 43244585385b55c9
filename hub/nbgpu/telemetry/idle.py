"""The watch over idle servers: brings signals together, has them judged, and notes who is to be stopped.

Who is told and stopped is in `limits`: an idle server is one more cause there.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from nbgpu.core.activity import Reading, Report, Signal, Track, note_reading, note_report
from nbgpu.core.culling import Look, State, judge, plan_idle_stop
from nbgpu.core.idle_policy import IdleSite
from nbgpu.core.periods import to_seconds
from nbgpu.core.ports import Clock
from nbgpu.store.idle import Watched
from nbgpu.store.idle_rows import IdleEntry
from nbgpu.telemetry.gauges import Gauges

TURN = 1.0  # seconds between two questions whether it is time for a look
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
        self._warned: frozenset[str] = frozenset()  # sessions whose stop is decided
        self._due_at = 0.0
        self.verdicts: Mapping[State, int] = {}  # of the last look: how many of each
        self._hurries = False

    def report(self, session_id: str, report: Report) -> None:
        """Take a server's report. Where it calls off a stop that is decided, the next look is at once."""
        with self._lock:
            if session_id in self._reports or len(self._reports) < MOST_REPORTS:
                self._reports[session_id] = (to_seconds(self._clock()), report)
            acted = report.person_ago is not None and report.person_ago < _JUST_NOW
            self._hurries = self._hurries or (acted and session_id in self._warned)

    def turn(self) -> None:
        """Look, if it is time. Raises StoreError: what was told meanwhile is then judged at the next look."""
        now = self._monotonic()
        if self._hurries or now >= self._due_at:
            self._hurries, self._due_at = False, now + self._site.every
            self.look()

    def look(self) -> None:
        """Judge all servers."""
        watched, now = self._store.watched(), to_seconds(self._clock())
        readings = self._gauges.take({each.session_id: each.devices for each in watched})
        with self._lock:
            reports, self._reports = self._reports, {}
        entries = [self._judge(each, readings, reports, now) for each in watched]
        self._store.write(entries, now)
        self.verdicts = Counter(each.verdict.state for each in entries)
        self._warned = frozenset(each.session_id for each in entries if each.stop is not None)

    def _judge(
        self,
        server: Watched,
        readings: Mapping[str, Sequence[Reading]],
        reports: Mapping[str, tuple[int, Report]],
        now: int,
    ) -> IdleEntry:
        tracks: Mapping[Signal, Track] = server.tracks
        for reading in readings.get(server.session_id, ()):
            tracks = note_reading(tracks, reading, server.policy.thresholds, self._site.stale)
        if server.session_id in reports:
            at, report = reports[server.session_id]
            tracks = note_report(tracks, report, at, self._site.stale)
        look = Look(
            now=now,
            stale=self._site.stale,
            has_gpu=server.has_gpu,
            zone=self._site.zone,
            extension=server.extension,
        )
        verdict = judge(tracks, server.policy, look)
        stop = plan_idle_stop(verdict, server.policy, server.decided, now)
        if stop != server.decided:
            log.info("%s is %s; to be stopped: %s", server.server, verdict.state, stop)
        return IdleEntry(session_id=server.session_id, tracks=tracks, verdict=verdict, stop=stop)
