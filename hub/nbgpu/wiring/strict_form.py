"""The hub's spawn page, for text only: JupyterHub answers 500, with a traceback in its log, to bytes that are no UTF-8.

An authenticator's handlers come before the hub's own, which makes it the one place from which to say 400 instead.
"""

from typing import Any

from jupyterhub.auth import Authenticator
from jupyterhub.handlers.pages import SpawnHandler, default_handlers
from tornado import web


class StrictSpawnHandler(SpawnHandler):  # type: ignore[misc]  # JupyterHub has no types
    """The spawn page and its form, where all fields are UTF-8."""

    async def prepare(self) -> None:
        """Refuse fields that are none."""
        await super().prepare()
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
