"""The page of usage: what was used and what it cost, what may still be used, and prices."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from nbgpu.core.errors import InvalidOptions
from nbgpu.core.menu import Menu
from nbgpu.core.periods import to_seconds
from nbgpu.core.statement import Dimension, Part, ask
from nbgpu.core.texts import Text
from nbgpu.core.units import render_money, render_price
from nbgpu.service.pages import plots
from nbgpu.service.pages.usage_file import UsageFile
from nbgpu.service.pages.usage_prices import PriceLine, build_price_lines
from nbgpu.service.pages.usage_request import UsageHandler
from nbgpu.service.pages.usage_view import MOST_ROWS, NO_FLAVOR, Name, build_dailies, build_lines
from nbgpu.service.pages.usage_waste import ORDERS, WasteLine, build_waste
from nbgpu.service.statement_answers import Asked
from nbgpu.service.turns import Turns
from nbgpu.spawner.cards import KIND_TITLES
from nbgpu.spawner.purse import Meter, build_meters

AT_ONCE = 3  # statements of pages that are made at one time, as of the API
PATIENCE = 20.0  # seconds that one waits for its turn
BY_DAY = (Dimension.DAY, Dimension.FLAVOR)
TABLES = {  # what its lines are read by, each ending with what they are of
    Dimension.FLAVOR: BY_DAY,
    Dimension.SESSION: (*BY_DAY, Dimension.USER, Dimension.SESSION),
    Dimension.USER: (Dimension.USER,),
    Dimension.GROUP: (Dimension.GROUP,),
}
FILES = {Dimension.FLAVOR: "day,flavor", Dimension.SESSION: "session,flavor"}
TITLES = {
    Dimension.FLAVOR: Text("Flavor"),
    Dimension.SESSION: Text("Session"),
    Dimension.USER: Text("User"),
    Dimension.GROUP: Text("Group"),
}


class UsagePage(UsageHandler):
    """One's own usage; anybody's, a group's or everybody's for who reads all."""

    async def get(self) -> None:
        """Show it."""
        by, order, asked = self._choose_table(), self._choose_order(), await self.ask(BY_DAY)
        async with self.turn():
            daily, lines = await asyncio.to_thread(self._read, asked, by)
            waste = await asyncio.to_thread(self._read_waste, asked, by, order)
        meters = await asyncio.to_thread(self._read_meters, asked)
        prices = await asyncio.to_thread(self._read_prices)
        rows = build_lines(by, lines, self._find_name)
        self.show(
            "usage.html",
            asked=asked,
            dailies=build_dailies(asked.question, daily, self._find_name),
            by=by,
            titles={each: TITLES[each] for each in self._tables()},
            rows=rows[:MOST_ROWS],
            found=len(rows),
            waste=waste[:MOST_ROWS],
            order=order,
            orders=ORDERS,
            name_of=self._find_name if by is Dimension.FLAVOR else str,
            meters=meters,
            prices=prices,
            months=self._months(asked),
            files=FILES.get(by, by.value),
            link=self.link,
            plots=plots,
            money=render_money,
            exact=render_price,
            kinds=KIND_TITLES,
        )

    def _tables(self) -> list[Dimension]:
        return list(TABLES) if self.caller.reads_all else [Dimension.FLAVOR, Dimension.SESSION]

    def _choose_table(self) -> Dimension:
        wanted = self.text("by") or Dimension.FLAVOR
        allowed = self._tables()
        if wanted not in allowed:
            raise InvalidOptions(
                Text("by “%(by)s” is not known; there are: %(all)s.", by=wanted[:40], all=", ".join(allowed))
            )
        return Dimension(wanted)

    def _choose_order(self) -> str:
        wanted = self.text("order") or next(iter(ORDERS))
        if wanted not in ORDERS:
            raise InvalidOptions(
                Text("order “%(order)s” is not known; there are: %(all)s.", order=wanted[:40], all=", ".join(ORDERS))
            )
        return wanted

    def _read_waste(self, asked: Asked, by: Dimension, order: str) -> Sequence[WasteLine]:
        """Return who leased what did nothing; of single sessions it is in their table."""
        if by is Dimension.SESSION:
            return ()
        return build_waste(self._read_by(asked, (by, Dimension.SKU)), order)

    def _read(self, asked: Asked, by: Dimension) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
        statements = self.books.statements
        daily = statements.read(asked.question, asked.now)
        if TABLES[by] == BY_DAY:
            return daily, daily
        return daily, self._read_by(asked, TABLES[by])

    def _read_by(self, asked: Asked, dimensions: tuple[Dimension, ...]) -> tuple[Part, ...]:
        whole = asked.question
        question = ask(
            dimensions,
            whole.first_day,
            whole.last_day,
            asked.zone,
            username=whole.username,
            billing_group=whole.billing_group,
        )
        return self.books.statements.read(question, asked.now)

    def _read_meters(self, asked: Asked) -> tuple[Meter, ...]:
        user, limits = asked.question.username, self.books.limits
        if user is None:
            return ()
        groups = self.caller.groups if user == self.caller.name else None
        accounts, quotas = limits.accounts(user, groups), limits.quotas(user, groups)
        return build_meters(accounts, quotas, self.books.currency, asked.now)

    def _read_prices(self) -> tuple[PriceLine, ...]:
        flavors = tuple(self.books.flavors.values())
        if not self.caller.reads_all:
            flavors = Menu(flavors).eligible(frozenset(self.caller.groups))
        return build_price_lines(flavors, self.books.prices.sheet(), to_seconds(self.books.clock()))

    def _find_name(self, slug: str) -> Name:
        flavor = self.books.flavors.get(slug)
        return flavor.display_name if flavor is not None else slug or NO_FLAVOR

    def _months(self, asked: Asked) -> list[str]:
        """Return the months before, of and after the first day, without those to come."""
        first = asked.question.first_day.replace(day=1)
        around = [first - timedelta(days=1), first, first + timedelta(days=31)]
        today = asked.now.astimezone(asked.zone).date()
        return [f"{day:%Y-%m}" for day in around if day.replace(day=1) <= today and day.year >= 1970]


def usage_routes(prefix: str, parts: Mapping[str, Any], turns: Turns | None = None) -> list[tuple[Any, ...]]:
    """Return the routes under a path like "/services/nbgpu/"; `parts` is what all pages take."""
    mine = {**parts, "turns": turns or Turns(AT_ONCE, patience=PATIENCE)}
    return [(rf"{prefix}usage", UsagePage, mine), (rf"{prefix}usage/file", UsageFile, mine)]
