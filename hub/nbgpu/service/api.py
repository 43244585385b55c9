"""The REST API, `/services/nbgpu/api/v1/…`: statements, budgets, quotas and prices; running servers.

Errors are problem details (RFC 9457). People read of themselves; who may read of all is in `callers`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from nbgpu.core.periods import to_seconds
from nbgpu.core.plain import plain_account, plain_quota
from nbgpu.service.books import Books
from nbgpu.service.callers import HubAuth
from nbgpu.service.handler import ApiHandler
from nbgpu.service.idle_due import DueHandler
from nbgpu.service.metrics import MetricsHandler
from nbgpu.service.sessions import SESSION_HANDLERS
from nbgpu.service.statement_answers import answer_statement, parse_asked, parse_dimensions
from nbgpu.service.statuses import Statuses
from nbgpu.service.turns import Turns

AT_ONCE = 3  # statements that are made at one time: each has a thread and a connection of its own
PATIENCE = 20.0  # seconds that one waits for its turn


class UsageHandler(ApiHandler):
    """A statement as JSON or CSV, or its single lines in FOCUS's columns."""

    parameters = ("by", "month", "from", "to", "timezone", "user", "group", "format")

    async def get(self) -> None:
        """Answer with the statement."""
        books, user = self.books, self.whose()
        if user is not None:
            await self.groups_of(user)
        by = parse_dimensions(self.get_query_arguments("by"))
        zone = self.text("timezone")
        asked = await asyncio.to_thread(parse_asked, books, self.text, by, user=user, zone_name=zone)
        await answer_statement(self, books, asked, kind=self.text("format") or "json", turn=self.turn)


class BudgetsHandler(ApiHandler):
    """Budgets as they stand: one's own, or all for who reads all."""

    parameters = ("user",)

    async def get(self) -> None:
        """Answer with a list."""
        books, user = self.books, self.whose()
        if user is None:
            found = await asyncio.to_thread(books.limits.all_accounts)
        else:
            found = await asyncio.to_thread(books.limits.accounts, user, await self.groups_of(user))
        now = to_seconds(books.clock())
        self.write({"budgets": [plain_account(account, now) for account in found]})


class QuotasHandler(ApiHandler):
    """A person's quotas as they stand."""

    parameters = ("user",)

    async def get(self) -> None:
        """Answer with a list."""
        user = self.whose() or self.caller.name
        found = await asyncio.to_thread(self.books.limits.quotas, user, await self.groups_of(user))
        self.write({"user": user, "quotas": [plain_quota(quota) for quota in found]})


class PricesHandler(ApiHandler):
    """What holds now."""

    async def get(self) -> None:
        """Answer with a list."""
        sheet = await asyncio.to_thread(self.books.prices.sheet)
        found = sheet.current(to_seconds(self.books.clock()))
        self.write({"prices": [asdict(price) for price in found]})


def api_routes(
    prefix: str, find_books: Callable[[], Books | None], auth: HubAuth, *, turns: Turns | None = None
) -> list[tuple[Any, ...]]:
    """Return the API's routes under a path like "/services/nbgpu/"."""
    parts = {
        "find_books": find_books,
        "auth": auth,
        "turns": turns or Turns(AT_ONCE, patience=PATIENCE),
        "statuses": Statuses(),
    }
    handlers: dict[str, type[ApiHandler]] = {
        "usage": UsageHandler,
        "budgets": BudgetsHandler,
        "quotas": QuotasHandler,
        "prices": PricesHandler,
        "idle/due": DueHandler,
        **SESSION_HANDLERS,
    }
    routes = [(rf"{prefix}api/v1/{name}", handler, parts) for name, handler in handlers.items()]
    return [*routes, (rf"{prefix}metrics", MetricsHandler, parts)]
