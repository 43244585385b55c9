"""The session as the panel shows it: what the hub says of it, and what it has told by the notice file."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nbgpu.core.errors import HubRefused
from nbgpu.panel.server.notice import NoticeFile
from nbgpu.panel.server.reporter import LEAST_S


class Extender(Protocol):
    """What is asked of `link.Link`."""

    async def extend(self) -> dict[str, Any]: ...


class HubSession:
    """Keeps the newest state and tells each change. Without a hub there is only what the notice file says."""

    def __init__(
        self,
        link: Extender | None,
        notices: NoticeFile,
        tell: Callable[[Mapping[str, Any]], None],
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._notices = notices
        self._tell = tell
        self._now_s = now_s
        self._status: dict[str, Any] | None = None
        self._status_at = -LEAST_S
        self.hurry: Callable[[], None] = lambda: None  # what asks for a new status soon

    @property
    def state(self) -> dict[str, Any] | None:
        """What is shown; None where there is nothing of a session to show."""
        notice = self._notices.notice
        if self._link is None and notice is None:
            return None
        return {"status": self._status, "notice": notice, "away": self._link is not None and self._status is None}

    def take(self, status: dict[str, Any] | None) -> None:
        """Take the hub's word; None: it does not answer."""
        self._status, self._status_at = status, self._now_s()
        self._say()

    def look(self) -> None:
        """See whether a notice came."""
        if self._notices.look():
            self._say()
            self.hurry()

    def person(self) -> None:
        """Somebody did something: a stop that is decided may be called off for that."""
        if self._status is not None and self._status.get("stop"):
            self.hurry()

    def refresh(self) -> None:
        """Somebody begins to look."""
        if self._now_s() - self._status_at >= LEAST_S:
            self.hurry()

    async def extend(self) -> None:
        """Ask for more time. Raises HubError."""
        if self._link is None:
            raise HubRefused("This server is not one of an nbgpu hub: it has no time limit to extend.")
        self.take(await self._link.extend())

    def _say(self) -> None:
        if self.state is not None:
            self._tell(self.state)
