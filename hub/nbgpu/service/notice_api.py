"""The API of what everybody is told: messages, and maintenance."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus
from typing import ClassVar

from pydantic import Field
from tornado.web import HTTPError

from nbgpu.core.broadcasts import Broadcast
from nbgpu.core.errors import ChangedMeanwhile
from nbgpu.core.maintenance import Maintenance
from nbgpu.service.books import BroadcastBook, MaintenanceBook
from nbgpu.service.handler import ApiHandler, needed
from nbgpu.service.operations import Answer, Body, Instant, May, Operation, SentInstant


class NewBroadcast(Body):
    """A message to everybody."""

    text: str = Field(description="At most 500 characters, as one line.")
    seconds: int = Field(ge=60, le=31 * 86400, description="For how long it is shown.")


class BroadcastAnswer(Answer):
    """A message to everybody."""

    number: int
    text: str
    author: str
    sent_at: Instant
    until: Instant
    withdrawn_at: Instant | None


class BroadcastsAnswer(Answer):
    """Messages, newest first."""

    broadcasts: list[BroadcastAnswer]


class NewMaintenance(Body):
    """Maintenance that is to begin, or to be changed."""

    reason: str = Field(description="Everybody reads it; at most 200 characters.")
    stop_at: SentInstant | None = Field(
        default=None, description="When what runs is stopped: in 5 minutes at least; null: it goes on."
    )


class MaintenanceAnswer(Answer):
    """Whether there is maintenance; without it all else is null."""

    is_on: bool
    reason: str | None = None
    author: str | None = None
    since: Instant | None = None
    stop_at: Instant | None = None


class _Broadcasts(ApiHandler):
    @property
    def broadcasts(self) -> BroadcastBook:
        """The messages. 503 while the service begins."""
        return needed(self.books.broadcasts)


class BroadcastsHandler(_Broadcasts):
    """Messages to everybody."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(summary="The messages that everybody is shown now.", answer=BroadcastsAnswer),
        "POST": Operation(
            summary="Tell everybody: on every page, and in all notebooks.",
            answer=BroadcastAnswer,
            body=NewBroadcast,
            may=May.OPERATE,
            status=HTTPStatus.CREATED,
        ),
    }

    async def get(self) -> None:
        """Answer with a list."""
        found = await asyncio.to_thread(self.broadcasts.current)
        self.answer(BroadcastsAnswer(broadcasts=[_plain(each) for each in reversed(found)]))

    async def post(self) -> None:
        """Send it."""
        span = timedelta(seconds=self.body.seconds)
        self.answer(_plain(await asyncio.to_thread(self.broadcasts.send, self.body.text, span, by=self.caller.name)))


class BroadcastHandler(_Broadcasts):
    """One message."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "DELETE": Operation(
            summary="Withdraw a message.",
            answer=None,
            may=May.OPERATE,
            status=HTTPStatus.NO_CONTENT,
            refusals=(HTTPStatus.NOT_FOUND,),
        )
    }

    async def delete(self, number: str) -> None:
        """Show it no more."""
        await asyncio.to_thread(self.broadcasts.withdraw, int(number), by=self.caller.name)
        self.set_status(HTTPStatus.NO_CONTENT)


_MATCH = (HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED)


class MaintenanceHandler(ApiHandler):
    """Whether servers are started."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(summary="Whether there is maintenance: no server is started.", answer=MaintenanceAnswer),
        "PUT": Operation(
            summary="Begin maintenance, or change it with If-Match: no server is started, what runs drains.",
            answer=MaintenanceAnswer,
            body=NewMaintenance,
            may=May.OPERATE,
            refusals=_MATCH,
        ),
        "DELETE": Operation(
            summary="End maintenance; with If-Match.",
            answer=None,
            may=May.OPERATE,
            status=HTTPStatus.NO_CONTENT,
            refusals=_MATCH,
        ),
    }

    @property
    def maintenance(self) -> MaintenanceBook:
        """The maintenance. 503 while the service begins."""
        return needed(self.books.maintenance)

    async def get(self) -> None:
        """Answer with what holds."""
        self.answer(answer_maintenance(await asyncio.to_thread(self.maintenance.current)))

    async def put(self) -> None:
        """Begin or change it."""
        by, body, seen = self.caller.name, self.body, await self._look()
        with _told_as_failed():
            begun = await asyncio.to_thread(self.maintenance.begin, body.reason, body.stop_at, by=by, seen=seen)
        self.answer(answer_maintenance(begun))

    async def delete(self) -> None:
        """End it; nothing is done where there is none."""
        seen = await self._look()
        with _told_as_failed():
            await asyncio.to_thread(self.maintenance.end, by=self.caller.name, seen=seen)
        self.set_status(HTTPStatus.NO_CONTENT)

    async def _look(self) -> Maintenance | None:
        """Return what holds, which who changes it must have seen; where there is none nothing is asked for."""
        found = await asyncio.to_thread(self.maintenance.current)
        if found is not None or "If-Match" in self.request.headers:
            self.check_match(answer_maintenance(found))
        return found


@contextmanager
def _told_as_failed() -> Iterator[None]:
    """Answer 412 where somebody else was faster between the look and the change."""
    try:
        yield
    except ChangedMeanwhile as error:
        raise HTTPError(HTTPStatus.PRECONDITION_FAILED, reason=str(error)) from None


def _plain(broadcast: Broadcast) -> BroadcastAnswer:
    return BroadcastAnswer.model_validate(broadcast, from_attributes=True)


def answer_maintenance(maintenance: Maintenance | None) -> MaintenanceAnswer:
    """Return maintenance as it is answered."""
    if maintenance is None:
        return MaintenanceAnswer(is_on=False)
    return MaintenanceAnswer(
        is_on=True,
        reason=maintenance.reason,
        author=maintenance.author,
        since=maintenance.since,
        stop_at=maintenance.stop_at,
    )


NOTICE_HANDLERS: dict[str, type[ApiHandler]] = {
    "broadcasts": BroadcastsHandler,
    "broadcasts/(?P<number>[0-9]{1,9})": BroadcastHandler,
    "maintenance": MaintenanceHandler,
}
