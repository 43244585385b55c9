"""Notices at once when a container ends, by Docker's own events.

The hub asks each server every 30 seconds whether it runs; until then a page of a dead one hangs. Events only say when
to ask: what has happened is read from the container, and the hub's own asking goes on for what no event told.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import requests
from docker.errors import DockerException

_LONGEST_PAUSE = 30.0  # seconds between two attempts while Docker is away
OnDeath = Callable[[], Coroutine[Any, Any, Any]]


class DeathWatch:
    """Calls back, in the event loop, for watched containers that end. One thread, from the first one on."""

    def __init__(self, client: Any, label: str) -> None:
        """Take a `docker.APIClient` and the label, like "name=value", of the containers of interest."""
        self._client = client
        self._filters = {"type": "container", "event": "die", "label": label}
        self._watched: dict[str, OnDeath] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread: threading.Thread | None = None

    def watch(self, container_id: str, on_death: OnDeath) -> None:
        """Call `on_death` once when the container ends; call this in the event loop."""
        self._watched[container_id] = on_death
        if self._thread is None:
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._listen, args=(loop,), name="deaths", daemon=True)
            self._thread.start()

    def forget(self, container_id: str) -> None:
        """Call back no more for a container."""
        self._watched.pop(container_id, None)

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        since, pause = time.time(), 1.0
        while not loop.is_closed():
            try:
                for event in self._client.events(since=int(since), filters=self._filters, decode=True):
                    since, pause = float(event["time"]), 1.0
                    loop.call_soon_threadsafe(self._tell, event["id"])
            except (DockerException, requests.RequestException, OSError):
                pause = min(_LONGEST_PAUSE, pause * 2)
            except RuntimeError:  # the loop was closed: the hub ends
                return
            time.sleep(pause)

    def _tell(self, container_id: str) -> None:
        on_death = self._watched.pop(container_id, None)
        if on_death is not None:
            task = asyncio.ensure_future(on_death())
            self._tasks.add(task)  # a task that nobody holds may be collected
            task.add_done_callback(self._tasks.discard)
