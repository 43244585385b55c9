"""The administrators' page of the pool: each GPU and MIG instance, who is on it, and taking it out of service."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from nbgpu.core.errors import DeviceRefused, InvalidOptions
from nbgpu.core.reasons import LONGEST, parse_reason
from nbgpu.core.texts import Text
from nbgpu.core.units import render_size
from nbgpu.service.books import PoolBook
from nbgpu.service.handler import needed
from nbgpu.service.pages.base import OperatorPage
from nbgpu.service.pages.pool_rows import STATES, DeviceRow, build_rows, count_states

CORDON, RETURN = "cordon", "return"


class PoolPage(OperatorPage):
    """All devices."""

    @property
    def pool(self) -> PoolBook:
        """The devices. 503 while the service begins."""
        return needed(self.books.pool)

    async def get(self) -> None:
        """Show them; with `device` also the form that takes it out of service, or back."""
        await self.show_pool(chosen=self.get_query_argument("device", ""), done=self.get_query_argument("done", ""))

    async def show_pool(self, *, chosen: str = "", done: str = "", problem: object = None, reason: str = "") -> None:
        """Answer with the page; `done` is what was done to `chosen`, `problem` why not, `reason` what was typed."""
        pool = await asyncio.to_thread(self.pool.look)
        rows = build_rows(pool, self.books.flavors)
        self.show(
            "pool.html",
            pool=pool,
            rows=rows,
            counts=count_states(rows),
            states=STATES,
            chosen=find_row(rows, chosen),
            done=done,
            problem=problem,
            reason=reason,
            longest=LONGEST,
            size=render_size,
        )


class HoldPage(PoolPage):
    """The forms behind the buttons."""

    async def get(self) -> None:
        """Show the devices: somebody has reloaded the answer to a form."""
        self.redirect(f"{self.frame.prefix}pool")

    async def post(self) -> None:
        """Take a device out of service, or back; show the page again, so that a reload does nothing."""
        uuid, what = self.get_body_argument("device", ""), self.get_body_argument("what", "")
        typed = self.get_body_argument("reason", "")
        try:
            await asyncio.to_thread(self._do, what, uuid, typed)
        except (DeviceRefused, InvalidOptions) as refusal:
            self.set_status(refusal.status_code)
            await self.show_pool(chosen=uuid, problem=refusal.text, reason=typed[:LONGEST])
            return
        query = urlencode({"device": uuid, "done": what})
        self.redirect(f"{self.frame.prefix}pool?{query}", status=HTTPStatus.SEE_OTHER)

    def _do(self, what: str, uuid: str, typed: str) -> None:
        reason, by = parse_reason(typed), self.caller.name
        if what == CORDON:
            self.pool.cordon(uuid, by=by, reason=reason)
        elif what == RETURN:
            self.pool.give_back(uuid, by=by, reason=reason)
        else:
            raise InvalidOptions(Text("Reload the page: you are not logged in, or the form is old."))


def find_row(rows: tuple[DeviceRow, ...], uuid: str) -> DeviceRow | None:
    """Return the row of a device; None where there is none."""
    return next((each for row in rows for each in (row, *row.parts) if each.uuid == uuid), None)


def pool_routes(prefix: str, parts: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the routes under a path like "/services/nbgpu/"; `parts` is what all pages take."""
    return [(rf"{prefix}pool", PoolPage, parts), (rf"{prefix}pool/hold", HoldPage, parts)]
