"""A question that many ask at once and that may take long: asked once, answered to all, and nobody waits for long."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from nbgpu.core.errors import EngineUnavailable

LONGEST_WAIT = 1.0  # second


class SharedQuestion:
    """Asks an engine about one subject at a time; who asks meanwhile waits for the same answer."""

    def __init__(self) -> None:
        self._subject = ""
        self._asked: asyncio.Task[str | None] | None = None

    async def ask(self, subject: str, find: Callable[[], Coroutine[Any, Any, str | None]]) -> str | None:
        """Return what `find` does, if it does so soon. Raises EngineUnavailable; the asking then goes on."""
        if self._asked is None or self._asked.done() or subject != self._subject:
            self._asked = asyncio.ensure_future(find())
            self._asked.add_done_callback(lambda done: done.cancelled() or done.exception())  # seen, if nobody waits
            self._subject = subject
        asked = self._asked
        done, _ = await asyncio.wait([asked], timeout=LONGEST_WAIT)
        if not done:
            raise EngineUnavailable(f"no answer within {LONGEST_WAIT:g} s")
        return asked.result()
