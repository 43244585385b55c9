"""The page of running servers: why each runs, when it stops, and one click to keep it running."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from urllib.parse import urlencode

from nbgpu.core.errors import NotAllowed, NotExtended
from nbgpu.core.idle_view import IdleView
from nbgpu.core.reasons import LONGEST as REASON
from nbgpu.core.statement_form import find_zone
from nbgpu.core.texts import Text
from nbgpu.core.units import render_money
from nbgpu.service.pages.base import PageHandler
from nbgpu.service.pages.rows import STATES, Filter, Row, build_row, select
from nbgpu.service.session_acts import click, find_running, may_extend, may_stop

LONGEST = 255  # characters of what is looked for


class ServersPage(PageHandler):
    """One's own running servers; all for who reads all, with a filter."""

    async def get(self) -> None:
        """Show them."""
        done = self.get_query_argument("extended", "")
        wanted = Filter(
            text=self.get_query_argument("q", "").strip()[:LONGEST],
            state=self.get_query_argument("state", ""),
        )
        await self.show_servers(wanted, done=done, stopped=self.get_query_argument("stopped", ""))

    async def show_servers(self, wanted: Filter, *, done: str = "", stopped: str = "", problem: object = None) -> None:
        """Answer with the page; `done` and `stopped` are sessions that were, `problem` is why one was not."""
        rows = await asyncio.to_thread(self._read)
        shown, found = select(rows, wanted)
        costs = await asyncio.to_thread(self.books.limits.costs, [row.session_id for row in shown])
        extended = next((row for row in rows if row.session_id == done and row.extended_until is not None), None)
        self.show(
            "servers.html",
            rows=shown,
            costs=costs,
            currency=self.books.currency,
            money=render_money,
            found=found,
            total=len(rows),
            wanted=wanted,
            states=STATES,
            extended=extended,
            stopped=await asyncio.to_thread(self._find_stopped, stopped) if stopped else None,
            longest=REASON,
            problem=problem,
        )

    def _find_stopped(self, session_id: str) -> IdleView | None:
        """Return a session that was stopped, for whoever might have done it."""
        view = self.idle.find(session_id)
        return view if view is not None and may_stop(self.caller, view) else None

    def _read(self) -> Sequence[Row]:
        books, caller = self.books, self.caller
        zone = find_zone(books.timezone)
        return [
            build_row(view, books.flavors.get(view.flavor), zone, viewer=caller.name, operates=caller.operates)
            for view in self.idle.running(None if caller.reads_all else caller.name)
        ]


class ExtendPage(ServersPage):
    """The form behind the button."""

    async def get(self) -> None:
        """Show the servers: somebody has reloaded the answer to a form."""
        self.redirect(f"{self.frame.prefix}servers")

    async def post(self) -> None:
        """Keep a server running; show the page again, so that a reload does nothing."""
        wanted = Filter(text=self.get_body_argument("q", "")[:LONGEST], state=self.get_body_argument("state", ""))
        session_id = self.get_body_argument("session_id", "")
        try:
            await asyncio.to_thread(self._extend, session_id)
        except NotExtended as refusal:
            self.set_status(HTTPStatus.CONFLICT)
            await self.show_servers(wanted, problem=refusal.text)
            return
        self.go_back(wanted, extended=session_id)

    def go_back(self, wanted: Filter, **done: str) -> None:
        """Send to the page again, with what was done."""
        query = {**done, "q": wanted.text, "state": wanted.state}
        there = urlencode({name: value for name, value in query.items() if value})
        self.redirect(f"{self.frame.prefix}servers?{there}", status=HTTPStatus.SEE_OTHER)

    def _extend(self, session_id: str) -> IdleView:
        view = find_running(self.idle, session_id)
        if not may_extend(self.caller, view):
            raise NotAllowed(Text("This is somebody else's server."))
        return click(self.idle, view, self.caller)
