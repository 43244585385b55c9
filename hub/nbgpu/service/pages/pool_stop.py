"""Stopping a server from the page of running servers: one's own, or somebody's with a reason for who operates."""

import asyncio
from http import HTTPStatus

from nbgpu.core.errors import HubError, InvalidOptions
from nbgpu.service.handler import needed
from nbgpu.service.pages.rows import Filter
from nbgpu.service.pages.servers import LONGEST, ExtendPage
from nbgpu.service.session_acts import find_running, stop


class StopPage(ExtendPage):
    """The form behind the button; a GET shows the servers, as of the form that extends."""

    async def post(self) -> None:
        """Stop a server; show the page again, so that a reload does nothing."""
        wanted = Filter(text=self.get_body_argument("q", "")[:LONGEST], state=self.get_body_argument("state", ""))
        session_id, reason = self.get_body_argument("session_id", ""), self.get_body_argument("reason", "")
        try:
            await asyncio.to_thread(self._stop, session_id, reason)
        except InvalidOptions as refusal:
            self.set_status(refusal.status_code)
            await self.show_servers(wanted, problem=refusal.text)
            return
        except HubError as error:
            self.set_status(HTTPStatus.SERVICE_UNAVAILABLE)
            await self.show_servers(wanted, problem=error.text)
            return
        self.go_back(wanted, stopped=session_id)

    def _stop(self, session_id: str, reason: str) -> None:
        stop(needed(self.books.stopper), find_running(self.idle, session_id), self.caller, reason)
