"""One round of culling: JupyterHub's own culler lists the servers that run, and stops those of sessions that are due.

Only its arbiter decides: its limit on age would by-pass that, and users and named servers are never deleted. A server
is known by its session, so that one which was started anew meanwhile is left alone. The library gives up at the first
page that fails, and stops one user's servers after the other's, each of which takes seconds: so the list is begun again
at a page that fails, and where many are due several go through it at the same time, each for a share of them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyterhub_idle_culler import cull_idle
from tornado.httpclient import HTTPClientError

PAGE = 100  # users that the hub lists at a time: more would hold up its other work
TRIES, FIRST_PAUSE, PAUSE_GROWS = 3, 1.0, 3.0  # of the list; seconds before the second try
LANES, PER_LANE = 8, 50  # that go through the list at the same time; due servers that make one more worth it
_TROUBLE = (HTTPClientError, OSError, ValueError, KeyError, TypeError)  # the hub is away, or something else answers

StillDue = Callable[[], Awaitable[Collection[str]]]

log = logging.getLogger("nbgpu.culler")
_library = log.getChild("library")
_library.setLevel(logging.ERROR)  # it tells of each page, and of each stop that takes longer than some seconds


@dataclass(frozen=True, slots=True)
class Round:
    """What a round did."""

    examined: int  # servers that run and that nothing is being done with
    stopped: frozenset[str]  # sessions whose stop was asked for
    failed: int = 0  # shares of the due ones for which the list could not be read to its end


@dataclass(slots=True)
class _Arbiter:
    """Decides for one share of what is due; it asks again first, since a stop before may have taken long."""

    share: frozenset[str]
    still_due: StillDue
    examined: int = 0
    stopped: set[str] = field(default_factory=set)

    def __call__(self, *, server: dict[str, Any], **_: object) -> bool | Awaitable[bool]:
        """Return whether a server is to be stopped: for one that is not due at once, since these are thousands."""
        self.examined += 1
        session_id = (server.get("state") or {}).get("session_id")
        return session_id in self.share and self._decide(session_id, server)

    async def _decide(self, session_id: str, server: dict[str, Any]) -> bool:
        if session_id not in await self.still_due():
            return False
        self.stopped.add(session_id)
        log.info("Stopping %s (session %s), which is idle", server.get("full_name", server.get("name")), session_id)
        return True


async def cull_round(
    url: str, token: str, *, due: Sequence[str], still_due: StillDue, pause: float = FIRST_PAUSE
) -> Round:
    """Stop the servers of the sessions in `due` by the hub at `url`; what is left over is for the next round."""
    lanes = min(LANES, -(-len(due) // PER_LANE))
    shares = [frozenset(due[number::lanes]) for number in range(lanes)]
    looks = await asyncio.gather(*(_look(url, token, share, still_due, pause) for share in shares))
    done = [each for each in looks if each is not None]
    return Round(
        examined=max((each.examined for each in done), default=0),
        stopped=frozenset().union(*(each.stopped for each in done)),
        failed=len(looks) - len(done),
    )


async def _look(url: str, token: str, share: frozenset[str], still_due: StillDue, pause: float) -> _Arbiter | None:
    """Go through all servers for one share; None where the list could not be read to its end."""
    for number in range(1, TRIES + 1):
        arbiter = _Arbiter(share, still_due)
        try:
            await _cull(url, token, arbiter)
        except _TROUBLE as error:
            # Its text alone: whoever keeps the error keeps all users' models.
            log.warning("The hub's list of servers can't be read (try %d of %d): %s", number, TRIES, str(error))
            if number < TRIES:
                await asyncio.sleep(pause * PAUSE_GROWS ** (number - 1))
        else:
            return arbiter
    return None


async def _cull(url: str, token: str, arbiter: _Arbiter) -> None:
    await cull_idle(
        url,
        token,
        inactive_limit=0,
        logger=_library,
        cull_users=False,
        remove_named_servers=False,
        max_age=0,
        api_page_size=PAGE,
        cull_arbiter=arbiter,
    )
