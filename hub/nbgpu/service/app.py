"""What the service answers over HTTP, and its life: from a signal's point of view, one process with one event loop."""

import asyncio
import hmac
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.web import Application, HTTPError, RequestHandler

from nbgpu.service.api import api_routes
from nbgpu.service.books import Books
from nbgpu.service.callers import HubAuth
from nbgpu.spawner.navigation import MANAGE, OWN

PREFIX = "/services/nbgpu/"
ADDRESS = "127.0.0.1"
LISTEN_AGAIN = 15.0  # seconds
LONGEST_BODY = 2**16  # bytes of a request; whoever sends more is cut off before it is in memory
LONGEST_FILE = 5 * 2**20  # of a form with a CSV file of 1 MiB, each letter of which can take three
TAKE_FILES = ("limits/import", "api/v1/import/")

log = logging.getLogger("nbgpu.service")

Health = Callable[[], dict[str, Any]]
LoadPages = Callable[[], list[tuple[Any, ...]]]


class ServiceApplication(Application):
    """What the service answers; the body of a request may be longer where files are sent."""

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Find who answers, before any of the body is read."""
        if any(request.path.startswith(f"{PREFIX}{each}") for each in TAKE_FILES) and request.connection is not None:
            request.connection.set_max_body_size(LONGEST_FILE)  # type: ignore[attr-defined]  # HTTP/1.1's alone
        return super().find_handler(request, **kwargs)


class HealthHandler(RequestHandler):
    """How the service does. All may know whether it is well; what fails and why, who has the token for it."""

    def initialize(self, health: Health, token: str) -> None:
        """Take what describes the health."""
        self._health = health
        self._token = token

    def get(self) -> None:
        """Answer with JSON; the status of the answer is 200 whatever it says."""
        self.set_header("Cache-Control", "no-store")
        health = self._health()
        given = self.request.headers.get("Authorization", "").removeprefix("token ")
        self.write(health if hmac.compare_digest(given, self._token) else {"status": health["status"]})


class StartingHandler(RequestHandler):
    """In place of the pages until they are loaded, which takes seconds: browsers ask again by themselves."""

    def prepare(self) -> None:
        """Answer whatever is asked."""
        self.set_header("Refresh", "2")
        self.set_header("Retry-After", "2")
        raise HTTPError(HTTPStatus.SERVICE_UNAVAILABLE)

    def write_error(self, status_code: int, **_: Any) -> None:
        """Say so."""
        self.set_status(status_code)
        self.finish("The service is starting. This page comes in a moment.")


def make_app(
    health: Health,
    token: str,
    find_books: Callable[[], Books | None],
    auth: HubAuth,
    *,
    cookie_secret: str | None = None,
) -> Application:
    """Return what the service answers; `auth` is the hub's word on who asks, `find_books` gives what it tells of.

    `cookie_secret` signs the cookies of its pages, which `serve` adds.
    """
    routes: list[tuple[Any, ...]] = [(rf"{PREFIX}(?:health)?", HealthHandler, {"health": health, "token": token})]
    names = "|".join(each.name for each in (*OWN, *MANAGE))
    pages = [(rf"{PREFIX}(?:(?:{names})(?:/.*)?|oauth_callback)", StartingHandler)]
    return ServiceApplication([*routes, *api_routes(PREFIX, find_books, auth), *pages], cookie_secret=cookie_secret)


async def serve(
    port: int,
    app: Application,
    *,
    for_servers: tuple[str, int] | None = None,
    load_pages: LoadPages = list,
) -> None:
    """Answer on loopback until SIGTERM or SIGINT. Raises OSError when the port can't be had.

    `for_servers` is a second address and port, which servers in containers reach; it is waited for. `load_pages`
    returns the routes of pages, and may take its time.
    """
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    servers = [app.listen(port, ADDRESS, max_body_size=LONGEST_BODY)]
    log.info("The service answers on %s:%d", ADDRESS, port)
    beside = [loop.create_task(_add_pages(app, load_pages))]
    if for_servers:
        beside.append(loop.create_task(_listen_late(app, servers, for_servers)))
    await ending.wait()
    for task in beside:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    for server in servers:
        server.stop()
        await server.close_all_connections()


async def _add_pages(app: Application, load: LoadPages) -> None:
    routes = await asyncio.to_thread(load)
    app.add_handlers(".*", routes)  # they come before what was there


async def _listen_late(app: Application, servers: list[HTTPServer], place: tuple[str, int]) -> None:
    """Listen at another place, again and again until it can be had: the service's other work does not depend on it."""
    address, port = place
    told = False
    while True:
        try:
            listening = socket.create_server((address, port), backlog=128)
        except OSError as error:
            if not told:
                log.warning("Servers can't report: the service can't listen on %s:%d yet: %s", address, port, error)
            told = True
            await asyncio.sleep(LISTEN_AGAIN)
        else:
            listening.setblocking(False)  # noqa: FBT003 - the standard library's signature
            servers.append(HTTPServer(app, max_body_size=LONGEST_BODY))
            servers[-1].add_socket(listening)
            log.info("The service answers servers on %s:%d", address, port)
            return
