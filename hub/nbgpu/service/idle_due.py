"""What the culler asks: which servers are to be stopped now for idleness. Nobody else may."""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from nbgpu.core.authorize import Cause
from nbgpu.core.periods import to_instant
from nbgpu.core.stops import PlannedStop
from nbgpu.service.handler import ApiHandler
from nbgpu.service.operations import Answer, Instant, May, Operation


class DueServer(Answer):
    """A server that is to be stopped now."""

    session_id: str
    user: str
    server: str
    stop_at: Instant
    cause: Cause


class DueAnswer(Answer):
    """Those that are due."""

    due: list[DueServer]


class DueHandler(ApiHandler):
    """The stops that are due at this moment."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(summary="The servers that are to be stopped now for idleness.", answer=DueAnswer, may=May.CULL)
    }

    async def get(self) -> None:
        """Answer with a list. 403 for all but the culler."""
        found = await asyncio.to_thread(self.books.find_due)
        self.answer(DueAnswer(due=[_build(each) for each in found]))


def _build(planned: PlannedStop) -> DueServer:
    return DueServer(
        session_id=planned.session_id,
        user=planned.server.username,
        server=planned.server.servername,
        stop_at=to_instant(planned.stop.at),
        cause=planned.stop.cause,
    )
