"""The REST API, `/services/nbgpu/api/v1/…`: statements, budgets, quotas and prices; running servers.

Errors are problem details (RFC 9457). People read of themselves; who may read of all is in `callers`.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from nbgpu.service.audit_api import AUDIT_HANDLERS
from nbgpu.service.books import Books
from nbgpu.service.callers import HubAuth
from nbgpu.service.handler import ApiHandler, NothingHandler
from nbgpu.service.idle_due import DueHandler
from nbgpu.service.metrics import MetricsHandler
from nbgpu.service.money_answers import StatementAnswer
from nbgpu.service.money_api import MONEY_HANDLERS
from nbgpu.service.notice_api import NOTICE_HANDLERS
from nbgpu.service.openapi import DocumentHandler
from nbgpu.service.operations import Operation
from nbgpu.service.pool_api import POOL_HANDLERS
from nbgpu.service.sessions import SESSION_HANDLERS
from nbgpu.service.site_api import SITE_HANDLERS
from nbgpu.service.statement_answers import STATEMENT, answer_statement, parse_asked, parse_dimensions
from nbgpu.service.statuses import Statuses
from nbgpu.service.turns import Turns

AT_ONCE = 3  # statements that are made at one time: each has a thread and a connection of its own
PATIENCE = 20.0  # seconds that one waits for its turn


class UsageHandler(ApiHandler):
    """A statement as JSON or CSV, or its single lines in FOCUS's columns."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="A statement: leased and busy time, and what it costs.",
            answer=StatementAnswer,
            parameters=STATEMENT,
            refusals=(404,),
            media=("application/json", "text/csv"),
        )
    }

    async def get(self) -> None:
        """Answer with the statement."""
        books, user = self.books, self.whose()
        if user is not None:
            await self.groups_of(user)
        by = parse_dimensions(self.get_query_arguments("by"))
        zone = self.text("timezone")
        asked = await asyncio.to_thread(parse_asked, books, self.text, by, user=user, zone_name=zone)
        await answer_statement(self, books, asked, kind=self.text("format") or "json", turn=self.turn)


class OpenApiHandler(DocumentHandler):
    """The document of all these."""

    @property
    def routes(self) -> Mapping[str, type[ApiHandler]]:
        """All that there are."""
        return ROUTES


HANDLERS: dict[str, type[ApiHandler]] = {
    "openapi.json": OpenApiHandler,
    "usage": UsageHandler,
    "idle/due": DueHandler,
    **AUDIT_HANDLERS,
    **MONEY_HANDLERS,
    **POOL_HANDLERS,
    **SESSION_HANDLERS,
    **NOTICE_HANDLERS,
    **SITE_HANDLERS,
}
ROUTES: dict[str, type[ApiHandler]] = {
    **{f"api/v1/{name}": handler for name, handler in HANDLERS.items()},
    "metrics": MetricsHandler,
}


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
    handlers = {**ROUTES, "api/.*": NothingHandler}
    return [(rf"{prefix}{path}", handler, parts) for path, handler in handlers.items()]
