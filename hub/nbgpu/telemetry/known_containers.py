"""Which container is whose, asked of the engine only when somebody unknown turns up."""

import threading
import time
from collections.abc import Callable, Collection

from nbgpu.core.errors import EngineError
from nbgpu.core.ports import Fleet

ASK_AT_MOST_EVERY = 10.0  # seconds: containers that are nobody's server stay unknown


class KnownContainers:
    """Containers and their sessions; safe to use from many threads."""

    def __init__(self, fleet: Fleet, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._fleet = fleet
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._asked_at: float | None = None
        self._sessions: dict[str, str] = {}  # container -> session

    def ids_of(self, session_ids: Collection[str]) -> dict[str, str]:
        """Return the containers of these sessions, by session; those that are known while the engine is away.

        Raises EngineError when none is.
        """
        with self._lock:
            known = self._of(session_ids)
            if set(known) != set(session_ids):
                try:
                    self._ask()
                except EngineError:
                    if not known:
                        raise
                known = self._of(session_ids)
            return known

    def session_of(self, container: str) -> str | None:
        """Return the session of a container, None for one that is not ours. Raises EngineError."""
        with self._lock:
            if container not in self._sessions:
                self._ask()
            return self._sessions.get(container)

    def _of(self, session_ids: Collection[str]) -> dict[str, str]:
        return {session: each for each, session in self._sessions.items() if session in session_ids}

    def _ask(self) -> None:
        now = self._monotonic()
        if self._asked_at is None or now - self._asked_at >= ASK_AT_MOST_EVERY:
            self._asked_at = now
            self._sessions = {each.id: each.session_id for each in self._fleet.containers() if each.running}
