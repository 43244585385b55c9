"""What the culler asks: which servers are to be stopped now for idleness. Nobody else may."""

import asyncio
from typing import Any

from nbgpu.core.errors import NotAllowed
from nbgpu.core.periods import to_instant
from nbgpu.core.stops import PlannedStop
from nbgpu.service.handler import ApiHandler


class DueHandler(ApiHandler):
    """The stops that are due at this moment."""

    async def get(self) -> None:
        """Answer with a list. 403 for all but the culler."""
        if not self.caller.culls:
            raise NotAllowed("Only the culler's own token may ask which servers are due.")
        found = await asyncio.to_thread(self.books.find_due)
        self.write({"due": [_plain(each) for each in found]})


def _plain(planned: PlannedStop) -> dict[str, Any]:
    return {
        "session_id": planned.session_id,
        "user": planned.server.username,
        "server": planned.server.servername,
        "stop_at": to_instant(planned.stop.at).isoformat(timespec="seconds"),
        "cause": str(planned.stop.cause),
    }
