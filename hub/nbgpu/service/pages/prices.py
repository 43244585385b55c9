"""The page of prices: what each flavor costs for everybody; for who bills, each SKU and a new price from a time on."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any
from zoneinfo import ZoneInfo

from nbgpu.core.errors import InvalidOptions, Refusal
from nbgpu.core.menu import Menu
from nbgpu.core.periods import to_instant, to_seconds
from nbgpu.core.texts import Text
from nbgpu.core.units import render_price
from nbgpu.service.pages.base import BillerPage, PageHandler
from nbgpu.service.pages.usage_prices import build_price_lines
from nbgpu.service.price_change import PriceChange, draft_price
from nbgpu.spawner.cards import KIND_TITLES


class PricesHandler(PageHandler):
    """What the page and its form have in common."""

    async def show_prices(self, *, problem: object = None, change: PriceChange | None = None) -> None:
        """Answer with the page; `change` is what is to be confirmed, `problem` why it can't be."""
        books, now = self.books, to_seconds(self.books.clock())
        sheet = await asyncio.to_thread(books.prices.sheet)
        flavors = tuple(books.flavors.values())
        if not self.caller.reads_all:
            flavors = Menu(flavors).eligible(frozenset(self.caller.groups))
        self.show(
            "prices.html",
            prices=build_price_lines(flavors, sheet, now),
            skus=sheet.current(now) if self.caller.bills else (),
            coming=sheet.coming(now) if self.caller.bills else (),
            change=change,
            problem=problem,
            typed={key: self.get_body_argument(key, "") for key in ("sku", "price", "since")},
            done=self.get_query_argument("done", ""),
            zone=books.timezone,
            exact=render_price,
            instant=to_instant,
            kinds=KIND_TITLES,
        )


class PricesPage(PricesHandler):
    """The prices."""

    async def get(self) -> None:
        """Show them."""
        await self.show_prices()


class PriceForm(PricesHandler, BillerPage):
    """Sets a price: "preview" shows what it does, "confirm" does it."""

    async def get(self) -> None:
        """Show the page: somebody has reloaded the answer to a form."""
        self.redirect(f"{self.frame.prefix}prices")

    async def post(self) -> None:
        """Show what it does, or do it."""
        try:
            change = await asyncio.to_thread(self._draft)
        except Refusal as refusal:
            self.set_status(refusal.status_code)
            await self.show_prices(problem=refusal.text)
            return
        step = self.get_body_argument("step", "")
        if step == "confirm":
            await asyncio.to_thread(self.books.prices.add, [change.price], author=self.caller.name)
            self.redirect(f"{self.frame.prefix}prices?done=1", status=HTTPStatus.SEE_OTHER)
            return
        await self.show_prices(change=change if step == "preview" else None)

    def _draft(self) -> PriceChange:
        begin = self._parse_since()
        return draft_price(self.books, self.get_body_argument("sku", ""), self.get_body_argument("price", ""), begin)

    def _parse_since(self) -> datetime | None:
        typed = self.get_body_argument("since", "")
        if not typed:
            return None
        try:
            found = datetime.fromisoformat(typed)
            return found.replace(tzinfo=found.tzinfo or ZoneInfo(self.books.timezone))
        except ValueError:
            raise InvalidOptions(
                Text("“%(text)s” is no time: give one like 2026-12-24T18:00.", text=typed[:40])
            ) from None


def price_routes(prefix: str, parts: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the routes under a path like "/services/nbgpu/"; `parts` is what all pages take."""
    handlers: dict[str, Callable[..., Any]] = {"prices": PricesPage, "prices/set": PriceForm}
    return [(rf"{prefix}{path}", handler, parts) for path, handler in handlers.items()]
