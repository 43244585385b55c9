"""Tells the `nbgpu` service what the server knows of itself, for as long as the server runs.

One exchange in 30 seconds serves idle rules and panel. It is sooner where somebody waits for it, and rarer while the
service does not answer, which may be for days.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from nbgpu.core.errors import HubError

EVERY_S = 30.0
LEAST_S = 15.0  # between two reports, whatever happens
LONGEST_S = 300.0  # while there is no answer
log = logging.getLogger("nbgpu.panel")


class Service(Protocol):
    """What is asked of `link.Link`."""

    async def report(self, report: Mapping[str, Any]) -> dict[str, Any]: ...


class Reporter:
    """Reports. `on_status` gets each answer, and None when there is none any more."""

    def __init__(
        self,
        service: Service,
        describe: Callable[[], Mapping[str, Any]],
        on_status: Callable[[dict[str, Any] | None], None],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._service = service
        self._describe = describe
        self._on_status = on_status
        self._sleep = sleep
        self._hurried = asyncio.Event()
        self._pause = EVERY_S
        self._problem: str | None = None

    def hurry(self) -> None:
        """Report as soon as may be."""
        self._hurried.set()

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self.report()
            await self._sleep(LEAST_S)
            await self._wait(self._pause - LEAST_S)

    async def report(self) -> None:
        """Report once. Never raises for a service that does not answer."""
        self._hurried.clear()
        try:
            status = await self._service.report(self._describe())
        except HubError as error:
            self._fail(str(error))
        else:
            if self._problem is not None:
                log.info("The nbgpu service takes this server's reports again.")
            self._problem, self._pause = None, EVERY_S
            self._on_status(status)

    def _fail(self, problem: str) -> None:
        if self._problem is None:
            log.warning("The nbgpu service does not take this server's reports, and is asked again: %s", problem)
            self._on_status(None)
        self._problem = problem
        self._pause = min(self._pause * 2, LONGEST_S)

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or until somebody is in a hurry. While there is no answer nobody is."""
        if self._problem is not None:
            await self._sleep(seconds)
            return
        hurried = asyncio.ensure_future(self._hurried.wait())
        slept = asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait([hurried, slept], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (hurried, slept):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
