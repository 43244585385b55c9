"""What a Jupyter server knows of work and of people: kernels that work at a cell, and when somebody last did something.

A kernel that is busy is not always at work: a widget that polls makes it busy for a moment again and again. It is at
work when code was sent to it since it was last seen idle, or when it is found busy at several looks in a row.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

LOOKS = 3  # in a row, at which a busy kernel counts as at work whatever made it busy
SETTLE_S = 2.0  # until a kernel says that it is busy with what was sent to it


class Activity:
    """Takes note of what people do, and of kernels as they are found. For the server's own thread."""

    def __init__(self, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._person_at: float | None = None
        self._sent_at: dict[str, float] = {}  # kernel -> when code was last sent to it that it may be at work on
        self._busy_looks: dict[str, int] = {}
        self.sockets: WeakSet[Any] = WeakSet()  # open connections to kernels
        self.on_person: Callable[[], None] = lambda: None

    def person(self) -> None:
        """Somebody did something."""
        self._person_at = self._now_s()
        self.on_person()

    def code_sent(self, kernel_id: str) -> None:
        """Somebody sent code to a kernel."""
        self._sent_at[kernel_id] = self._now_s()
        self.person()

    def look(self, states: Mapping[str, str | None]) -> None:
        """Take note of the state of each kernel that there is."""
        self._busy_looks = {
            kernel: self._busy_looks.get(kernel, 0) + 1 if state == "busy" else 0 for kernel, state in states.items()
        }
        settled = self._now_s() - SETTLE_S
        self._sent_at = {
            kernel: sent_at
            for kernel, sent_at in self._sent_at.items()
            if kernel in states and (self._busy_looks[kernel] or sent_at > settled)
        }

    @property
    def kernels(self) -> int:
        """How many kernels there are."""
        return len(self._busy_looks)

    @property
    def kernels_busy(self) -> int:
        """How many of them work at a cell."""
        return sum(
            looks >= LOOKS or (looks > 0 and kernel in self._sent_at) for kernel, looks in self._busy_looks.items()
        )

    @property
    def person_s_ago(self) -> float | None:
        """Seconds since somebody last did something; None: nobody yet."""
        return None if self._person_at is None else round(max(0.0, self._now_s() - self._person_at), 1)
