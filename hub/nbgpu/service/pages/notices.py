"""The page of what everybody is told: messages, and maintenance; for who may act on others' servers."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from nbgpu.core.broadcasts import LONGEST
from nbgpu.core.errors import ChangedMeanwhile, InvalidOptions, Refusal
from nbgpu.core.maintenance import Maintenance
from nbgpu.core.reasons import LONGEST as REASON
from nbgpu.core.texts import Text
from nbgpu.service.books import BroadcastBook, MaintenanceBook
from nbgpu.service.handler import needed, to_etag
from nbgpu.service.notice_api import answer_maintenance
from nbgpu.service.pages.base import OperatorPage

SPANS = (3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)  # seconds that a message is shown
STOPS = (900, 1800, 3600, 4 * 3600, 12 * 3600, 24 * 3600)  # seconds until what runs is stopped
KEEP = "keep"  # the time that was set before


class NoticesPage(OperatorPage):
    """What everybody is told now, and was; the forms."""

    @property
    def broadcasts(self) -> BroadcastBook:
        """The messages. 503 while the service begins."""
        return needed(self.books.broadcasts)

    @property
    def maintenance(self) -> MaintenanceBook:
        """The maintenance. 503 while the service begins."""
        return needed(self.books.maintenance)

    async def get(self) -> None:
        """Show them."""
        await self.show_notices()

    async def show_notices(self, *, problem: object = None) -> None:
        """Answer with the page; `problem` is why something was not done, and what was typed stays."""
        messages = await asyncio.to_thread(self.broadcasts.latest)
        running = await asyncio.to_thread(self.idle.running, None)
        maintenance = await asyncio.to_thread(self.maintenance.current)
        now = self.books.clock()
        self.show(
            "notices.html",
            shown=[each for each in messages if each.is_shown(now)],
            past=[each for each in messages if not each.is_shown(now)],
            maintenance=maintenance,
            seen=to_etag(answer_maintenance(maintenance)),
            running=len(running),
            spans=[timedelta(seconds=each) for each in SPANS],
            stops=[timedelta(seconds=each) for each in STOPS],
            done=self.get_query_argument("done", ""),
            problem=problem,
            typed={name: self.get_body_argument(name, "") for name in ("text", "reason", "stop")},
            longest=LONGEST,
            longest_reason=REASON,
        )


class _Form(NoticesPage):
    """A form of that page."""

    done = ""

    async def get(self) -> None:
        """Show the page: somebody has reloaded the answer to a form."""
        self.redirect(f"{self.frame.prefix}notices")

    async def post(self) -> None:
        """Do it; show the page again, so that a reload does nothing."""
        try:
            await asyncio.to_thread(self.act)
        except Refusal as refusal:
            self.set_status(refusal.status_code)
            await self.show_notices(problem=refusal.text)
            return
        self.redirect(f"{self.frame.prefix}notices?done={self.done}", status=HTTPStatus.SEE_OTHER)

    def act(self) -> None:
        """Do what the form is for. May block. Raises Refusal."""
        raise NotImplementedError

    def seconds(self, name: str, allowed: tuple[int, ...]) -> timedelta:
        """Return a span that was chosen. Raises InvalidOptions for another."""
        typed = self.get_body_argument(name, "")
        if typed not in map(str, allowed):
            raise InvalidOptions(Text("Reload the page: you are not logged in, or the form is old."))
        return timedelta(seconds=int(typed))


class _MaintenanceForm(_Form):
    """Changes maintenance, as who does it has seen it."""

    def look(self) -> Maintenance | None:
        """Return what holds. Blocks. Raises ChangedMeanwhile where the page showed something else."""
        now = self.maintenance.current()
        if self.get_body_argument("seen", "") != to_etag(answer_maintenance(now)):
            raise ChangedMeanwhile(
                Text("Somebody has changed maintenance since you looked. Look at what is there now.")
            )
        return now


class SendForm(_Form):
    """Tells everybody."""

    done = "sent"

    def act(self) -> None:
        """Send the message."""
        self.broadcasts.send(self.get_body_argument("text", ""), self.seconds("span", SPANS), by=self.caller.name)


class WithdrawForm(_Form):
    """Takes a message back."""

    done = "withdrawn"

    def act(self) -> None:
        """Withdraw the message."""
        number = self.get_body_argument("number", "")
        self.broadcasts.withdraw(int(number) if number.isdecimal() and len(number) < 10 else -1, by=self.caller.name)


class BeginForm(_MaintenanceForm):
    """Begins maintenance, or changes one that has begun."""

    done = "begun"

    def act(self) -> None:
        """Start no more servers."""
        chosen, now = self.get_body_argument("stop", ""), self.look()
        if chosen == KEEP and now is not None:
            stop_at = now.stop_at
        else:
            stop_at = self.books.clock() + self.seconds("stop", STOPS) if chosen else None
        self.maintenance.begin(self.get_body_argument("reason", ""), stop_at, by=self.caller.name, seen=now)


class EndForm(_MaintenanceForm):
    """Ends maintenance."""

    done = "ended"

    def act(self) -> None:
        """Start servers again."""
        self.maintenance.end(by=self.caller.name, seen=self.look())


def notice_routes(prefix: str, parts: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the routes under a path like "/services/nbgpu/"; `parts` is what all pages take."""
    handlers: dict[str, Callable[..., Any]] = {
        "notices": NoticesPage,
        "notices/send": SendForm,
        "notices/withdraw": WithdrawForm,
        "notices/maintenance": BeginForm,
        "notices/end": EndForm,
    }
    return [(rf"{prefix}{path}", handler, parts) for path, handler in handlers.items()]
