"""The phases of a start, as the pending page shows them. Any number of pages may follow one start."""

import asyncio
from collections.abc import AsyncIterator
from enum import Enum
from typing import Any

from nbgpu.core.texts import Text


class Phase(Enum):
    """A step of a start: its name, and how far the bar is when it begins (percent)."""

    LEASE = ("lease", 5)
    QUEUE = ("queue", 15)
    IMAGE = ("image", 25)
    CONTAINER = ("container", 35)
    SERVER = ("server", 60)

    def __init__(self, label: str, percent: int) -> None:
        self.label = label
        self.percent = percent


class Report:
    """What a start says of itself. The pending page has each template in its reader's language."""

    @staticmethod
    def leasing(flavor: str) -> Text:
        return Text("Leasing “%(flavor)s”", flavor=flavor)

    @staticmethod
    def queued(place: int) -> Text:
        return Text("Waiting for other servers to start: you are number %(place)s in the queue", place=place)

    @staticmethod
    def image(image: str) -> Text:
        return Text("Using the image “%(image)s”", image=image)

    CONTAINER = Text("Starting the container")
    SERVER = Text("Waiting for the notebook server to answer")
    TAKING_UP = Text("Taking up the server that runs already")


# JupyterHub's own events come without a template: these are known by their English.
HUB_SAYS = (Text("Server requested").template, Text("Spawning server...").template, Text("Spawn cancelled").template)
TEMPLATES = (
    *(each.template for each in (Report.leasing(""), Report.queued(0), Report.image(""))),
    *(each.template for each in (Report.CONTAINER, Report.SERVER, Report.TAKING_UP)),
    *HUB_SAYS,
)


class ProgressFeed:
    """The events of one start, kept so that a page that comes late sees them all."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []
        self._changed = asyncio.Event()
        self._closed = False

    def report(self, phase: Phase, text: Text) -> None:
        """Add an event: English for whoever asks the API, template and params for pages, which escape them."""
        self._events.append(
            {
                "progress": phase.percent,
                "phase": phase.label,
                "message": str(text),
                "template": text.template,
                "params": dict(text.params),
            }
        )
        self._wake()

    def close(self) -> None:
        """End the feed: everyone who follows it gets the rest and then stops."""
        self._closed = True
        self._wake()

    async def follow(self) -> AsyncIterator[dict[str, Any]]:
        """Yield all events, the past ones first, until the feed is closed."""
        sent = 0
        while True:
            while sent < len(self._events):
                yield dict(self._events[sent])
                sent += 1
            if self._closed:
                return
            await self._changed.wait()

    def _wake(self) -> None:
        # Those who wait hold the old event; the next to wait gets a new one.
        self._changed.set()
        self._changed = asyncio.Event()
