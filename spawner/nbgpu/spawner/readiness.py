"""Wait until a server answers, and notice at once when it never will.

JupyterHub's own wait backs off at random, up to seconds, and goes on asking a container that is dead. Here the
server is asked at short, growing intervals, and the engine is asked now and then whether it still runs.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import ClientError, ClientTimeout
from jupyterhub.httpclient import fetch

from nbgpu.core.errors import ServerDied

_FIRST_INTERVAL = 0.03  # seconds
_LONGEST_INTERVAL = 0.1
_LIMITS = ClientTimeout(total=5, sock_connect=1)
_CHECK_EVERY = 1.0  # seconds between two questions to the engine; a dead container's address can take as long to fail


async def wait_until_ready(url: str, find_end: Callable[[], Awaitable[str | None]]) -> None:
    """Return when `url` answers HTTP, whatever the status below 500.

    `find_end` returns None while the server's process runs, else why it ended. Raises ServerDied. Waits for ever
    otherwise: the caller has the time limit.
    """
    interval = _FIRST_INTERVAL
    now = asyncio.get_running_loop().time
    asked = now()
    while not await _answers(url):
        if now() - asked >= _CHECK_EVERY:
            end = await find_end()
            if end is not None:
                raise ServerDied(end)
            asked = now()
        await asyncio.sleep(interval)
        interval = min(_LONGEST_INTERVAL, interval * 1.2)


async def _answers(url: str) -> bool:
    """Ask with the hub's own client, whose look at the server comes next and finds the connection open."""
    try:
        response = await fetch(url, raise_for_status=False, allow_redirects=False, timeout=_LIMITS)
    except (OSError, ClientError):
        return False
    response.release()
    return bool(200 <= response.status < 500)
