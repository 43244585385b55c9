"""Joins the extension's parts to a Jupyter server, and runs them as long as it runs."""

import asyncio
import atexit
import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

from tornado.routing import Rule, RuleRouter

from nbgpu.nvml import NvmlInventory
from nbgpu.panel.collect import Collector
from nbgpu.panel.sampler import Sampler
from nbgpu.panel.server.activity import Activity
from nbgpu.panel.server.handlers import routes
from nbgpu.panel.server.kernels import KernelSocket
from nbgpu.panel.server.link import find_link
from nbgpu.panel.server.notice import NoticeFile
from nbgpu.panel.server.reporter import Reporter
from nbgpu.panel.server.room import Room
from nbgpu.panel.server.session import HubSession
from nbgpu.panel.server.watched import count_jobs, watch_kernels, watch_terminals
from nbgpu.panel.shared import SOCKET_VARIABLE

LOOK_S = 5.0
NOTICE_VARIABLE = "NBGPU_NOTICE_FILE"
CONNECTION = "kernel_websocket_connection_class"
log = logging.getLogger("nbgpu.panel")


class Extension:
    """The parts, of one server."""

    def __init__(self, serverapp: Any, environ: Mapping[str, str]) -> None:
        self._app = serverapp
        self._link = find_link(environ)
        self._tasks: list[asyncio.Task[None]] = []
        self.activity = Activity()
        self.room = Room(Sampler(Collector(NvmlInventory(limit_s=1.0))), serverapp.io_loop.add_callback)
        self.session = HubSession(self._link, NoticeFile(environ.get(NOTICE_VARIABLE)), self.room.tell)
        self.kernels = KernelSocket(self.room)

    def join(self) -> None:
        """Listen to what the server does; before it serves."""
        settings = self._app.web_app.settings
        self._app.web_app.add_handlers(".*$", routes(settings["base_url"], self.room, self.session))
        if self._link is not None:
            settings[CONNECTION] = watch_kernels(settings[CONNECTION], self.activity)
            self._app.contents_manager.register_post_save_hook(self._note_save)
            self.activity.on_person = self.session.person

    def _note_save(self, **_what: Any) -> None:
        self.activity.person()

    async def start(self) -> None:
        """Begin what goes on beside the server, once its loop runs and all other extensions are there."""
        try:
            os.environ[SOCKET_VARIABLE] = str(await self.kernels.open())  # its kernels inherit it
        except OSError as error:
            log.info("Kernels read the GPU driver by themselves: %s", error)
        self._tasks.append(asyncio.ensure_future(self._look_on()))
        if self._link is not None:
            self._watch_terminals()
            reporter = Reporter(self._link, self.describe, self.session.take)
            self.session.hurry = reporter.hurry
            self._tasks.append(asyncio.ensure_future(reporter.run()))

    def _watch_terminals(self) -> None:
        """Put classes of ours in the place of those that routes to terminals lead to."""
        if not self._app.web_app.settings.get("terminals_available"):
            return
        from terminado.websocket import TermSocket

        for rule in all_rules(self._app.web_app.default_router):
            if isinstance(rule.target, type) and issubclass(rule.target, TermSocket):
                rule.target = watch_terminals(rule.target, self.activity)

    async def _look_on(self) -> None:
        while True:
            try:
                self.session.look()
                self.activity.look(self._kernel_states())
            except Exception:
                log.warning("The nbgpu extension could not look after this server.", exc_info=True)
            await asyncio.sleep(LOOK_S)

    def _kernel_states(self) -> dict[str, str | None]:
        manager = self._app.kernel_manager
        found = {}
        for kernel_id in manager.list_kernel_ids():
            found[kernel_id] = getattr(manager.get_kernel(kernel_id), "execution_state", None)
        return found

    def describe(self) -> dict[str, Any]:
        """Return the report of the server on itself."""
        settings, activity = self._app.web_app.settings, self.activity
        manager = settings.get("terminal_manager") if settings.get("terminals_available") else None
        terminals = dict(manager.terminals) if manager is not None else {}
        clients = sum(len(each.clients) for each in terminals.values())
        return {
            "kernels": activity.kernels,
            "kernels_busy": activity.kernels_busy,
            "terminals": len(terminals),
            "terminal_jobs": count_jobs(terminals),
            "person_s_ago": activity.person_s_ago,
            "sockets": len(activity.sockets) + clients + self.room.count,
        }


def all_rules(router: RuleRouter) -> Iterator[Rule]:
    """Yield the rules of a router and of the routers that they lead to."""
    for rule in router.rules:
        yield rule
        if isinstance(rule.target, RuleRouter):
            yield from all_rules(rule.target)


def load(serverapp: Any) -> None:
    """Join a Jupyter server, and write to its log."""
    log.parent = serverapp.log
    extension = Extension(serverapp, os.environ)
    extension.join()
    serverapp.io_loop.add_callback(extension.start)
    atexit.register(extension.kernels.remove)
