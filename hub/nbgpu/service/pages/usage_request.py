"""What the page of usage and its files have in common: whose usage of which days is asked for, and by whom."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from urllib.parse import urlencode

from tornado.web import HTTPError

from nbgpu.core.errors import NotAllowed, UnknownUser
from nbgpu.core.statement import Dimension
from nbgpu.core.texts import Text, mark
from nbgpu.service.pages.base import Frame, PageHandler
from nbgpu.service.statement_answers import Asked, parse_asked
from nbgpu.service.turns import Turns

_BUSY = mark("Many statements are being made at this moment. Try again in a moment.")


class UsageHandler(PageHandler):
    """What the page and its files have in common."""

    def initialize(self, frame: Frame, turns: Turns) -> None:  # type: ignore[override]  # as Tornado has it
        """Take what all pages need, and what lets few statements be made at one time."""
        super().initialize(frame)
        self._turns = turns

    def text(self, name: str) -> str | None:
        """Return a parameter; None without it, or where it is empty."""
        return self.get_query_argument(name, "").strip() or None

    def whose(self) -> str | None:
        """Return the user that is asked about; None is everybody. Raises NotAllowed."""
        user = self.text("user")
        if self.caller.reads_all:
            return user
        if user not in (None, self.caller.name):
            raise NotAllowed(Text("This is somebody else's usage."))
        return self.caller.name

    async def ask(self, by: Sequence[Dimension]) -> Asked:
        """Return what is asked for. Raises InvalidOptions, NotAllowed, UnknownUser."""
        user = self.whose()
        if user not in (None, self.caller.name) and not await asyncio.to_thread(self.books.statements.knows, user):
            raise UnknownUser(Text("Nobody of the name “%(user)s” has ever had a server.", user=str(user)[:80]))
        return await asyncio.to_thread(parse_asked, self.books, self.text, by, user=user)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Have a turn at what takes long. 503 where too many others wait."""
        try:
            async with self._turns.take():
                yield
        except TimeoutError:
            raise HTTPError(HTTPStatus.SERVICE_UNAVAILABLE, reason=_BUSY) from None

    def link(self, path: str, asked: Asked, **changes: str) -> str:
        """Return an address for the same time and people, with something else changed; "" is left out."""
        question = asked.question
        query = {
            "from": question.first_day.isoformat(),
            "to": question.last_day.isoformat(),
            "user": self.text("user") or "",
            "group": self.text("group") or "",
            **changes,
        }
        return f"{self.frame.prefix}{path}?" + urlencode({name: value for name, value in query.items() if value})
