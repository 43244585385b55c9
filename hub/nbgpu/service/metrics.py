"""`/services/nbgpu/metrics`, for Prometheus."""

import asyncio
from http import HTTPStatus

from tornado.web import HTTPError

from nbgpu.core.errors import NotAllowed
from nbgpu.service.handler import ApiHandler

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsHandler(ApiHandler):
    """All metrics of the service, to whoever may read the hub's own."""

    async def get(self) -> None:
        """Answer in Prometheus's text format. 403 without the scope."""
        if not self.caller.reads_metrics:
            raise NotAllowed("This token may not read metrics: its role needs the scope read:metrics.")
        render = self.books.metrics
        if render is None:
            raise HTTPError(HTTPStatus.SERVICE_UNAVAILABLE)
        text = await asyncio.to_thread(render)
        self.set_header("Content-Type", CONTENT_TYPE)
        self.write(text)
