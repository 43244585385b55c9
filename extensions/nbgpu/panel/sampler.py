"""A sampler: a thread of its own reads once a second and tells whoever listens.

It goes on while a cell runs. The thread ends with its last listener; the history stays, and is bounded.
"""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from nbgpu.core.ports import Clock
from nbgpu.nvml.inventory import utc_now
from nbgpu.panel.collect import Collector
from nbgpu.panel.frames import Frame

INTERVAL_S = 1.0
KEPT = 300  # frames: five minutes
Listener = Callable[[Frame], None]
log = logging.getLogger(__name__)


class Sampler:
    """Takes frames and keeps the last of them. Threads may share one."""

    def __init__(self, collector: Collector, *, now: Clock = utc_now, interval_s: float = INTERVAL_S) -> None:
        self._collector = collector
        self._now = now
        self.interval_s = interval_s
        self._frames: deque[Frame] = deque(maxlen=KEPT)
        self._listeners: list[Listener] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._first = threading.Event()
        self._wake = threading.Event()
        self._failing: set[Listener] = set()
        self._failed = False
        self.session: Mapping[str, Any] | None = None  # what is known of the session; None: of none

    @property
    def thread(self) -> threading.Thread | None:
        """The thread that reads; None while nobody listens."""
        return self._thread

    @property
    def history(self) -> tuple[Frame, ...]:
        """The last frames, oldest first."""
        return tuple(self._frames)

    def latest(self, *, wait_s: float = 0.0) -> Frame | None:
        """Return the newest frame; where there is none yet, what comes within `wait_s` seconds."""
        self._first.wait(wait_s)
        return self._frames[-1] if self._frames else None

    def next_frame(self, *, wait_s: float) -> Frame | None:
        """Return a frame that is begun after this call, None when none comes within `wait_s` seconds."""
        came: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        asked_at = self._now()
        stop = self.subscribe(lambda frame: came.put(frame) if frame.taken_at >= asked_at else None)
        self.hurry()
        try:
            return came.get(timeout=wait_s)
        except queue.Empty:
            return None
        finally:
            stop()

    def hurry(self) -> None:
        """Take the next frame now, not when it is due."""
        self._wake.set()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener` each frame, in the sampler's thread, until what is returned is called."""
        with self._lock:
            self._listeners.append(listener)
            if self._thread is None:
                self._wake.clear()
                self._thread = threading.Thread(target=self._run, name="nbgpu-panel", daemon=True)
                self._thread.start()
        return lambda: self._unsubscribe(listener)

    def tick(self) -> Frame:
        """Take one frame, keep it and tell it."""
        frame = self._collector.collect(self._now())
        self._publish(frame)
        return frame

    def _publish(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._first.set()
        for listener in tuple(self._listeners):
            self._tell(listener, frame)

    def _tell(self, listener: Listener, frame: Frame) -> None:
        try:
            listener(frame)
        except Exception:  # somebody's observer: the others are told all the same
            if listener not in self._failing:
                log.warning("A listener of the GPU panel failed; further failures of it are not told.", exc_info=True)
            self._failing.add(listener)

    def _unsubscribe(self, listener: Listener) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)
            self._failing.discard(listener)
            if not self._listeners:
                self._wake.set()

    def _run(self) -> None:
        due = time.monotonic()
        while self._goes_on():
            due = min(due, time.monotonic())  # one that was asked for in between moves the next ones
            self._try_tick()
            due = max(due + self.interval_s, time.monotonic())  # a late one is not made up for
            self._wake.wait(due - time.monotonic())

    def _try_tick(self) -> None:
        """Take a frame; one that fails is missing, and the first of a row is told."""
        try:
            self.tick()
            self._failed = False
        except Exception:
            if not self._failed:
                log.warning("The GPU panel could not read; it goes on trying once a second.", exc_info=True)
            self._failed = True

    def _goes_on(self) -> bool:
        with self._lock:
            if self._listeners:
                self._wake.clear()
                return True
            self._thread = None
            return False
