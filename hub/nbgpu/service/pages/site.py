"""The pages of what the site stands on: images and whether they are built, the doctor's findings, alerts."""

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from nbgpu.core.findings import Level
from nbgpu.core.gpu_health import FaultKind
from nbgpu.core.texts import mark
from nbgpu.core.units import render_money, render_size
from nbgpu.service.books import DoctorBook
from nbgpu.service.handler import needed
from nbgpu.service.pages.base import OperatorPage, ReaderPage

AGAIN = 2  # seconds after which a page asks whether an examination is done
LEVELS = {Level.OK: mark("well"), Level.WARN: mark("look at it"), Level.FAIL: mark("mend it")}
STATES = {"not built": mark("not built"), "built": mark("built"), "out of date": mark("out of date")}


class ImagesPage(OperatorPage):
    """The catalogue's images, what they bring, and whether they are built."""

    async def get(self) -> None:
        """Show them."""
        book = needed(self.books.images)
        images = await asyncio.to_thread(book.look)
        self.show("images.html", images=images, states=STATES, size=render_size)


class DoctorPage(OperatorPage):
    """What the site stands on, and what to do where it does not stand well."""

    @property
    def doctor(self) -> DoctorBook:
        """The doctor. 503 while the service begins."""
        return needed(self.books.doctor)

    async def get(self) -> None:
        """Show what was found last; while an examination is under way the page asks again by itself."""
        examination = self.doctor.latest()
        if examination.is_running:
            self.set_header("Refresh", str(AGAIN))
        self.show("doctor.html", examination=examination, levels=LEVELS)

    async def post(self) -> None:
        """Examine anew."""
        self.doctor.begin()
        self.redirect(f"{self.frame.prefix}doctor", status=HTTPStatus.SEE_OTHER)


class AlertsPage(ReaderPage):
    """What needs somebody: GPUs that failed; budgets of which a share is spent."""

    async def get(self) -> None:
        """Show them."""
        alerts = await asyncio.to_thread(self.books.limits.alerts)
        pool = self.books.pool
        held_back = (await asyncio.to_thread(pool.look)).held_back if pool is not None and self.caller.operates else {}
        failed = [each for each in held_back.values() if each.fault.kind is not FaultKind.CORDON]
        self.show("alerts.html", alerts=alerts, failed=failed, money=render_money, currency=self.books.currency)


def site_routes(prefix: str, parts: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the routes under a path like "/services/nbgpu/"; `parts` is what all pages take."""
    handlers: dict[str, Callable[..., Any]] = {"images": ImagesPage, "doctor": DoctorPage, "alerts": AlertsPage}
    return [(rf"{prefix}{path}", handler, parts) for path, handler in handlers.items()]
