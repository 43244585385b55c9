"""Work that is done again and again, each kind in a thread of its own.

A loop that fails or hangs holds up no other, nor the answers over HTTP: what fails is tried again at its next turn,
what hangs is said to be stale.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from nbgpu.core.errors import NbgpuError

TELL_AGAIN = 600.0  # seconds after which a failure that lasts is logged again
STALE_PERIODS = 3

log = logging.getLogger("nbgpu.service")


@dataclass(frozen=True, slots=True)
class Loop:
    """One kind of work: `work` blocks and may raise; it is called every `period` seconds, never twice at a time."""

    name: str
    period: float
    work: Callable[[], object]


@dataclass(slots=True)
class _State:
    """How a loop does; written by its thread, read by others."""

    began_at: float
    succeeded_at: float | None = None
    failures: int = 0  # in a row
    error: str = ""
    told_at: float = field(default=0)


class Loops:
    """Runs loops from `start` to `stop`."""

    def __init__(self, loops: Iterable[Loop], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._loops = tuple(loops)
        self._monotonic = monotonic
        self._ending = threading.Event()
        self._states = {loop.name: _State(monotonic()) for loop in self._loops}
        self._threads = [
            threading.Thread(target=self._run, args=(loop,), name=f"nbgpu-{loop.name}", daemon=True)
            for loop in self._loops
        ]

    def start(self) -> None:
        """Begin all loops, each with a turn at once."""
        for thread in self._threads:
            thread.start()

    def stop(self, *, seconds: float = 5.0) -> None:
        """Let each loop end its turn, for so long all together; one that hangs is left behind."""
        self._ending.set()
        deadline = self._monotonic() + seconds
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - self._monotonic()))

    def health(self) -> dict[str, dict[str, Any]]:
        """Return how each loop does, as plain values for JSON: ages in seconds."""
        now = self._monotonic()
        return {loop.name: self._describe(loop, self._states[loop.name], now) for loop in self._loops}

    def _describe(self, loop: Loop, state: _State, now: float) -> dict[str, Any]:
        since = now - (state.succeeded_at if state.succeeded_at is not None else state.began_at)
        return {
            "period_s": loop.period,
            "succeeded_s_ago": None if state.succeeded_at is None else round(since, 1),
            "stale": since > STALE_PERIODS * loop.period,
            "failures": state.failures,
            "error": state.error or None,
        }

    def _run(self, loop: Loop) -> None:
        due = self._monotonic()
        while not self._ending.is_set():
            self._turn(loop)
            due = max(due + loop.period, self._monotonic())  # turns that were missed are not made up for
            self._ending.wait(due - self._monotonic())

    def _turn(self, loop: Loop) -> None:
        state = self._states[loop.name]
        try:
            loop.work()
        except NbgpuError as error:
            self._note_failure(loop, state, str(error))
        except Exception as error:
            log.exception("%s failed", loop.name)  # the loop must outlive any surprise
            self._note_failure(loop, state, f"{type(error).__name__}: {error}")
        else:
            if state.failures:
                log.warning("%s works again after %d failures", loop.name, state.failures)
            state.failures, state.error, state.succeeded_at = 0, "", self._monotonic()

    def _note_failure(self, loop: Loop, state: _State, error: str) -> None:
        """Log a failure when it is new, and now and then while it lasts."""
        now = self._monotonic()
        if error != state.error or now - state.told_at >= TELL_AGAIN:
            log.warning("%s failed: %s", loop.name, error)
            state.told_at = now
        state.failures, state.error = state.failures + 1, error
