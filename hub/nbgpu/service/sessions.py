"""The API of running servers: their status, what they tell of themselves, and keeping one running for longer.

A server's own token reads and does what concerns its own session, and nothing else.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

from nbgpu.core.activity import Report
from nbgpu.core.errors import NotAllowed, NotExtended, UnknownSession
from nbgpu.core.idle_view import IdleView
from nbgpu.core.texts import Text
from nbgpu.service.books import IdleBook
from nbgpu.service.callers import Caller
from nbgpu.service.handler import ApiHandler, needed
from nbgpu.service.operations import May, Operation, Parameter
from nbgpu.service.session_answers import SessionAnswer, SessionsAnswer
from nbgpu.service.session_bodies import ExtensionBody, ReportBody


def may_read(caller: Caller, view: IdleView) -> bool:
    """Whether somebody may see a session."""
    return caller.reads_all or is_own(caller, view)


def may_extend(caller: Caller, view: IdleView) -> bool:
    """Whether somebody may keep a session running."""
    return caller.operates or is_own(caller, view)


def is_own(caller: Caller, view: IdleView) -> bool:
    """Whether it is a person's own session, or that of the server that asks."""
    if caller.server is not None:
        return caller.server == view.server
    return caller.is_user and caller.name == view.server.username


def click(idle: IdleBook, view: IdleView, caller: Caller, seconds: int = 0) -> IdleView:
    """Keep a session running; 0 is for as long as one click gives. May block. Raises NotExtended."""
    if view.policy is not None and not view.policy.extend and not caller.operates:
        raise NotExtended(Text("Nobody extends servers here themselves. Work in it, or ask an administrator."))
    return idle.extend(view.session_id, seconds, by=caller.name, as_admin=caller.operates)


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
    """Running sessions: one's own, or all for who reads all."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="The servers that run: one's own, or all for who reads all.",
            answer=SessionsAnswer,
            parameters=(Parameter(name="user", description="Whose; for who reads all."),),
            refusals=(404,),
        )
    }

    async def get(self) -> None:
        """Answer with a list."""
        self.write({"sessions": await asyncio.to_thread(self._list)})

    def _list(self) -> list[dict[str, Any]]:
        server = self.caller.server
        views = self.idle.running(server.username if server is not None else self.whose())
        return self.statuses.of(self.books, [view for view in views if may_read(self.caller, view)])


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


SESSION = "(?P<session_id>[^/]+)"
SESSION_HANDLERS: dict[str, type[SessionHandlerBase]] = {
    "sessions": SessionsHandler,
    f"sessions/{SESSION}": SessionHandler,
    f"sessions/{SESSION}/report": ReportHandler,
    f"sessions/{SESSION}/extend": ExtendHandler,
}
