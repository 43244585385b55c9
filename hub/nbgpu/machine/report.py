"""Progress of the set-up, for a person at a terminal and for a CI log."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.status import Status

QUIET_SECONDS = 10.0  # without a terminal, a step's details are a line at most this often
WIDTH = 100

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # pip's and npm's own; cut in half they would colour the rest

Detail = Callable[[str], None]  # takes a passing line about the step under way


class Progress:
    """Reports "[n/m] title: outcome (x s)": a live line on a terminal, plain lines elsewhere."""

    def __init__(self, total: int, *, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._total = total
        self._number = 0
        self._status: Status | None = None
        self._title = ""
        self._said_at: float | None = None

    def run(self, title: str, action: Callable[[Detail], str]) -> None:
        """Run one step; `action` gets where to put details, and returns what came of it in a few words."""
        self._number += 1
        self._title = f"[{self._number}/{self._total}] {title}"
        self._said_at = None
        started = time.monotonic()
        with self._live():
            outcome = action(self._detail)
        self._console.print(escape(f"{self._title}: {outcome} ({time.monotonic() - started:.1f} s)"))

    def _detail(self, line: str) -> None:
        line = _COLOURS.sub("", line).strip()[:WIDTH]
        if self._status is not None:
            self._status.update(f"{escape(self._title)} [dim]{escape(line)}[/]")
        elif self._said_at is None or time.monotonic() - self._said_at >= QUIET_SECONDS:
            self._said_at = time.monotonic()
            self._console.print(escape(f"{self._title} … {line}"))

    @contextmanager
    def _live(self) -> Iterator[None]:
        if not self._console.is_terminal:
            yield
            return
        with self._console.status(escape(self._title)) as self._status:
            try:
                yield
            finally:
                self._status = None
