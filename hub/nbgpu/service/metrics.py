"""`/services/nbgpu/metrics`, for Prometheus."""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from nbgpu.service.handler import ApiHandler, needed
from nbgpu.service.operations import May, Operation

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsHandler(ApiHandler):
    """All metrics of the service, to whoever may read the hub's own."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="All metrics of the service, for Prometheus.",
            answer=None,
            may=May.METRICS,
            media=("text/plain",),
        )
    }

    async def get(self) -> None:
        """Answer in Prometheus's text format. 403 without the scope."""
        render = needed(self.books.metrics)
        text = await asyncio.to_thread(render)
        self.set_header("Content-Type", CONTENT_TYPE)
        self.write(text)
