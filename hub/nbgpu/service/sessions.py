"""The API of sessions: lists, their status, what servers tell of themselves, and what is done to those that run.

A server's own token reads and does what concerns its own session, and nothing else.
"""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar

from nbgpu.core.activity import Report
from nbgpu.core.errors import NotAllowed, UnknownSession
from nbgpu.core.idle_view import IdleView
from nbgpu.service.books import IdleBook
from nbgpu.service.handler import ApiHandler, needed
from nbgpu.service.operations import May, Operation
from nbgpu.service.paging import PAGING
from nbgpu.service.session_acts import click, extend_limit, may_extend, may_read, stop
from nbgpu.service.session_answers import SessionAnswer, SessionsAnswer
from nbgpu.service.session_bodies import ExtensionBody, LimitBody, ReportBody, StopBody
from nbgpu.service.session_question import FILTERS, parse_session_page, parse_session_question, place_cursor


class SessionHandlerBase(ApiHandler):
    """What finds sessions and tells of them."""

    @property
    def idle(self) -> IdleBook:
        """The sessions. 503 while the service begins."""
        return needed(self.books.idle)

    def find(self, session_id: str, *, ended: bool = False) -> IdleView:
        """Return a session, an ended one only where asked for. May block. Raises UnknownSession."""
        view = self.idle.find(session_id)
        if view is None or (view.ended_at is not None and not ended):
            what = "was never one" if view is None else "has ended"
            raise UnknownSession(f"The session “{session_id[:40]}” {what}. GET sessions lists those that run.")
        return view


class SessionsHandler(SessionHandlerBase):
    """Sessions: one's own, or all for who reads all."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Sessions, those that run by default: one's own, or all for who reads all.",
            answer=SessionsAnswer,
            parameters=(*FILTERS, *PAGING),
        )
    }

    async def get(self) -> None:
        """Answer with a page of them."""
        self.write(await asyncio.to_thread(self._list))

    def _list(self) -> dict[str, Any]:
        server = self.caller.server
        question = parse_session_question(
            self.text,
            self.books.timezone,
            username=server.username if server is not None else self.whose(),
            servername=server.servername if server is not None else None,
        )
        page, edge = parse_session_page(self.text, question.order)
        found = needed(self.books.sessions).find(question, count=page.limit, edge=edge)
        following = place_cursor(question.order, found.rows[-1].place) if found.is_more else None
        sessions = self.statuses.of(self.books, [row.view for row in found.rows])
        return {"sessions": sessions, "next": following, "total": found.total}


class SessionHandler(SessionHandlerBase):
    """One session, running or ended."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(summary="One session, running or ended.", answer=SessionAnswer, refusals=(404,))
    }

    async def get(self, session_id: str) -> None:
        """Answer with its status."""
        self.write(await asyncio.to_thread(self._read, session_id))

    def _read(self, session_id: str) -> dict[str, Any]:
        view = self.find(session_id, ended=True)
        if not may_read(self.caller, view):
            raise NotAllowed("This token may not read of that session.")
        return self.statuses.full(self.books, view)


class ReportHandler(SessionHandlerBase):
    """What a server tells of itself."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "POST": Operation(
            summary="A server tells of itself, with its own token.",
            answer=SessionAnswer,
            may=May.SERVER,
            body=ReportBody,
            refusals=(404,),
        )
    }

    async def post(self, session_id: str) -> None:
        """Take it and answer with the status."""
        report = self.body.to_report()
        self.write(await asyncio.to_thread(self._take, session_id, report))

    def _take(self, session_id: str, report: Report) -> dict[str, Any]:
        view = self.statuses.running(self.books, self.idle, session_id)
        if view is None or view.stop is not None:
            view = self.find(session_id)  # new, ended, or soon to be: as it is at this moment
        if self.caller.server != view.server:
            raise NotAllowed("A server tells of its own session, with its own token; this token is another's.")
        self.idle.report(session_id, report)
        return self.statuses.full(self.books, view)


class ExtendHandler(SessionHandlerBase):
    """Keeps a session running for longer."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "POST": Operation(
            summary="Not to stop a session for being idle for longer.",
            answer=SessionAnswer,
            body=ExtensionBody,
            refusals=(404, 409),
        )
    }

    async def post(self, session_id: str) -> None:
        """Do it and answer with the status."""
        self.write(await asyncio.to_thread(self._extend, session_id, self.body.seconds or 0))

    def _extend(self, session_id: str, seconds: int) -> dict[str, Any]:
        view = self.find(session_id)
        if not may_extend(self.caller, view):
            raise NotAllowed("This token may not keep that session running.")
        return self.statuses.full(self.books, click(self.idle, view, self.caller, seconds))


class StopHandler(SessionHandlerBase):
    """Stops a session's server."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "POST": Operation(
            summary="Have the hub stop a server: one's own, or any for who operates. Its person reads the reason.",
            answer=None,
            body=StopBody,
            status=HTTPStatus.NO_CONTENT,
            refusals=(404,),
        )
    }

    async def post(self, session_id: str) -> None:
        """Do it. 503 where the hub does not."""
        await asyncio.to_thread(self._stop, session_id)
        self.set_status(HTTPStatus.NO_CONTENT)

    def _stop(self, session_id: str) -> None:
        stop(needed(self.books.stopper), self.find(session_id), self.caller, self.body.reason)


class LimitHandler(SessionHandlerBase):
    """Lets a session run past its time limit."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "POST": Operation(
            summary="Let a session run so much longer than its time limit.",
            answer=SessionAnswer,
            may=May.OPERATE,
            body=LimitBody,
            refusals=(404, 409),
        )
    }

    async def post(self, session_id: str) -> None:
        """Do it and answer with the status."""
        self.write(await asyncio.to_thread(self._extend, session_id))

    def _extend(self, session_id: str) -> dict[str, Any]:
        view = extend_limit(self.idle, self.find(session_id), self.caller, self.body.seconds)
        return self.statuses.full(self.books, view)


SESSION = "(?P<session_id>[^/]+)"
SESSION_HANDLERS: dict[str, type[SessionHandlerBase]] = {
    "sessions": SessionsHandler,
    f"sessions/{SESSION}": SessionHandler,
    f"sessions/{SESSION}/report": ReportHandler,
    f"sessions/{SESSION}/extend": ExtendHandler,
    f"sessions/{SESSION}/limit": LimitHandler,
    f"sessions/{SESSION}/stop": StopHandler,
}
