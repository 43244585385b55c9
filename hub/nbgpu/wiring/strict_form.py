"""The hub's spawn page, for text only: JupyterHub answers 500, with a traceback in its log, to bytes that are no UTF-8.

An authenticator's handlers come before the hub's own, which makes it the one place from which to say 400 instead.
"""

from typing import Any

from jupyterhub.auth import Authenticator
from jupyterhub.handlers.pages import SpawnHandler, default_handlers
from tornado import web


class StrictSpawnHandler(SpawnHandler):  # type: ignore[misc]  # JupyterHub has no types
    """The spawn page and its form, where all fields are UTF-8, and where no other site starts a server."""

    async def prepare(self) -> None:
        """Refuse fields that are none; take what another site asks to start out of the question.

        A link that starts at once is for bookmarks and for pages of one's own. Followed from elsewhere, or loaded by a
        page without a click, it opens the form instead, and the person starts or does not.
        """
        await super().prepare()
        if self.request.method == "GET" and self.request.headers.get("Sec-Fetch-Site") == "cross-site":
            self.request.query_arguments.clear()
        for values in self.request.arguments.values():
            try:
                b"".join(values).decode()
            except UnicodeDecodeError:
                raise web.HTTPError(400, "The server options are no UTF-8 text.") from None


def with_strict_form(authenticator: type[Authenticator]) -> type[Authenticator]:
    """Return the authenticator, of the same name and configuration, with the strict spawn page."""
    routes = [(route, StrictSpawnHandler) for route, handler, *_ in default_handlers if handler is SpawnHandler]

    def get_handlers(self: Any, app: Any) -> list[Any]:
        return [*routes, *authenticator.get_handlers(self, app)]

    return type(authenticator.__name__, (authenticator,), {"get_handlers": get_handlers})
