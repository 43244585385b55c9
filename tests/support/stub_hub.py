"""A hub's API with as many running servers as wanted, paged and strict; and what the culler asks of our service."""

import asyncio
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, HTTPError, RequestHandler

TOKEN = "the-cullers"
LONG_AGO = "2026-11-01T00:00:00.000000Z"


@dataclass
class StubHub:
    """Users with one running server each; every tenth has a named one instead."""

    users: int
    page: int = 100  # the most that it lists at a time
    due: set[str] = field(default_factory=set)  # sessions
    failing: list[int] = field(default_factory=list)  # offsets of pages that fail, each once
    service_is_away: bool = False
    url: str = ""
    port: int = 0

    def __post_init__(self) -> None:
        self.servers = {f"user-{number:05}": self._server(number) for number in range(self.users)}
        self.lists: list[list[int]] = []  # offsets of the pages of each list that was begun
        self.stops: list[tuple[str, str]] = []  # (path, body)
        self.asked_service = 0

    def _server(self, number: int) -> dict[str, Any]:
        name = "second" if number % 10 == 9 else ""
        user = f"user-{number:05}"
        return {
            "name": name,
            "full_name": f"{user}/{name}",
            "last_activity": LONG_AGO,
            "started": LONG_AGO,
            "pending": None,
            "ready": True,
            "stopped": False,
            "url": f"/user/{user}/{name}",
            "user_options": {"profile": "cpu", "image": "base"},
            "progress_url": f"/hub/api/users/{user}/server/progress",
            "state": {"session_id": session_of(number), "flavor": "cpu", "object_id": "0" * 64},
        }

    def touch(self, numbers: Iterable[int]) -> None:
        """Have these users' servers been active just now."""
        for number in numbers:
            self.servers[f"user-{number:05}"]["last_activity"] = datetime.now(UTC).isoformat()

    def list_page(self, offset: int, limit: int) -> dict[str, Any]:
        """Return a page as the hub gives it. Raises HTTPError once for one that is to fail."""
        if offset == 0:
            self.lists.append([])
        self.lists[-1].append(offset)
        if offset in self.failing:
            self.failing.remove(offset)
            raise HTTPError(503)
        limit = min(limit, self.page)
        names = list(self.servers)[offset : offset + limit]
        after = offset + limit
        following = {
            "offset": after,
            "limit": limit,
            "url": f"{self.url}/users?state=ready&offset={after}&limit={limit}",
        }
        return {
            "items": [{"name": name, "kind": "user", "servers": _by_name(self.servers[name])} for name in names],
            "_pagination": {
                "offset": offset,
                "limit": limit,
                "total": len(self.servers),
                "next": following if after < len(self.servers) else None,
            },
        }

    def stop(self, path: str, body: str) -> None:
        """Note the stop; the server is in no later list as a running one."""
        self.stops.append((path, body))
        server = self.servers[unquote(path.split("/")[2])]
        server["pending"], server["ready"] = "stop", False
        self.due.discard(server["state"]["session_id"])


def session_of(number: int) -> str:
    """Return the session of a user's server."""
    return f"session-{number:05}"


def _by_name(server: dict[str, Any]) -> dict[str, Any]:
    return {server["name"]: server}


class _Handler(RequestHandler):
    def initialize(self, hub: StubHub) -> None:
        self.hub = hub

    def prepare(self) -> None:
        if self.request.headers.get("Authorization") != f"token {TOKEN}":
            raise HTTPError(403)

    def get(self, path: str) -> None:
        if path == "/":
            self.write({"version": "6.1.1"})
        elif path == "/users":
            assert self.get_query_argument("state") == "ready"
            assert "pagination" in self.request.headers["Accept"]
            offset = int(self.get_query_argument("offset", "0"))
            self.write(self.hub.list_page(offset, int(self.get_query_argument("limit", "50"))))
        else:
            raise HTTPError(404)

    def delete(self, path: str) -> None:
        self.hub.stop(path, self.request.body.decode())
        self.set_status(204)


class _Due(_Handler):
    def get(self) -> None:
        self.hub.asked_service += 1
        if self.hub.service_is_away:
            raise HTTPError(503)
        self.write(json.dumps({"due": [{"session_id": each} for each in sorted(self.hub.due)]}))


@contextmanager
def serving(hub: StubHub) -> Iterator[StubHub]:
    """Serve from a thread."""
    ready, loop, ending = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        parts = {"hub": hub}
        routes = [("/services/nbgpu/api/v1/idle/due", _Due, parts), (r"/hub/api(/.*)", _Handler, parts)]
        server, (socket, hub.port) = HTTPServer(Application(routes, log_function=lambda _: None)), bind_unused_port()
        server.add_socket(socket)
        hub.url = f"http://127.0.0.1:{hub.port}/hub/api"
        ready.set()
        await ending.wait()
        server.stop()
        await server.close_all_connections()

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    assert ready.wait(10)
    try:
        yield hub
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join(10)
        loop.close()
