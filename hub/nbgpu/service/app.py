"""What the service answers over HTTP, and its life: from a signal's point of view, one process with one event loop."""

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Any

from tornado.web import Application, RequestHandler

PREFIX = "/services/nbgpu/"
ADDRESS = "127.0.0.1"

log = logging.getLogger("nbgpu.service")

Health = Callable[[], dict[str, Any]]


class HealthHandler(RequestHandler):
    """How the service does. Open to all: it names no user, no device, nothing of the site."""

    def initialize(self, health: Health) -> None:
        """Take what describes the health."""
        self._health = health

    def get(self) -> None:
        """Answer with JSON; the status of the answer is 200 whatever it says."""
        self.set_header("Cache-Control", "no-store")
        self.write(self._health())


def make_app(health: Health) -> Application:
    """Return the service's pages."""
    return Application([(rf"{PREFIX}health", HealthHandler, {"health": health})])


async def serve(port: int, health: Health) -> None:
    """Answer on loopback until SIGTERM or SIGINT."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    server = make_app(health).listen(port, ADDRESS)
    log.info("The service answers on %s:%d", ADDRESS, port)
    await ending.wait()
    server.stop()
    await server.close_all_connections()
