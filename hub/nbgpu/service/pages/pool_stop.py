"""Stopping somebody's server, from the page of running servers: for administrators, with a reason."""

import asyncio
from http import HTTPStatus

from tornado.web import HTTPError

from nbgpu.core.errors import HubError, InvalidOptions, UnknownSession
from nbgpu.core.reasons import parse_reason
from nbgpu.core.texts import Text, mark
from nbgpu.service.pages.rows import Filter
from nbgpu.service.pages.servers import LONGEST, ExtendPage

_ADMINS = mark("Only administrators stop other people's servers.")
_STARTING = mark("The service is starting. Try again in a moment.")


class StopPage(ExtendPage):
    """The form behind the button; a GET shows the servers, as of the form that extends."""

    async def post(self) -> None:
        """Stop a server; show the page again, so that a reload does nothing."""
        if not self.is_admin:
            raise HTTPError(HTTPStatus.FORBIDDEN, reason=_ADMINS)
        wanted = Filter(text=self.get_body_argument("q", "")[:LONGEST], state=self.get_body_argument("state", ""))
        session_id, reason = self.get_body_argument("session_id", ""), self.get_body_argument("reason", "")
        try:
            await asyncio.to_thread(self._stop, session_id, parse_reason(reason))
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
        stopper, view = self.books.stopper, self.idle.find(session_id)
        if stopper is None:
            raise HTTPError(HTTPStatus.SERVICE_UNAVAILABLE, reason=_STARTING)
        if view is None or view.ended_at is not None:
            raise UnknownSession(Text("This server does not run any more."))
        stopper.stop(view, by=self.caller.name, reason=reason)
