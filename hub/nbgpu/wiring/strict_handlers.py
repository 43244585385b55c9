"""Where the hub is stricter than JupyterHub: its spawn page, and the names of its users.

An authenticator's handlers come before the hub's own, which makes it the one place from which to be so.
"""

from typing import Any

from jupyterhub.apihandlers.users import UserAPIHandler
from jupyterhub.apihandlers.users import default_handlers as user_handlers
from jupyterhub.auth import Authenticator
from jupyterhub.handlers.pages import SpawnHandler, default_handlers
from tornado import web

from nbgpu.core.menu import FLAVOR_KEY


class StrictSpawnHandler(SpawnHandler):  # type: ignore[misc]  # JupyterHub has no types
    """The spawn page and its form, where all fields are UTF-8, and where no other site starts a server."""

    async def prepare(self) -> None:
        """Refuse fields that are none; take what another site asks to start out of the question.

        JupyterHub answers bytes that are no UTF-8 with 500 and a traceback in its log.

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

    async def _get(self, user_name: str, server_name: str, display_name: str) -> None:
        """Tell who follows a link to a choice that their server runs already; JupyterHub opens that one and is silent.

        A choice in a fragment is known to the browser alone: the page decides whether it has something to say.
        """
        user = self.current_user
        if user_name == user.name and server_name in user.spawners and user.spawners[server_name].ready:
            page = await self.render_template(
                "running.html",
                user=user,
                server_name=server_name,
                server_url=self.get_next_url(user, default=user.server_url(server_name)),
                asked=any(name.startswith("opt-") or name == FLAVOR_KEY for name in self.request.query_arguments),
            )
            self.finish(page)
            return
        await super()._get(user_name, server_name, display_name)


class KeepNameHandler(UserAPIHandler):  # type: ignore[misc]  # JupyterHub has no types
    """A user's API, where the name stays: home, leases and history are found by it.

    Renamed, a person would lose their files, and whoever gets the old name would have them.
    """

    async def patch(self, user_name: str) -> None:
        """Change all else of a user."""
        asked = self.get_json_body()
        if isinstance(asked, dict) and asked.get("name", user_name) != user_name:
            raise web.HTTPError(
                400, "Users are not renamed: home, leases and history belong to the name. Make a new user instead."
            )
        await super().patch(user_name)


def with_strict_handlers(authenticator: type[Authenticator]) -> type[Authenticator]:
    """Return the authenticator, of the same name and configuration, with the strict handlers."""
    routes = [(route, StrictSpawnHandler) for route, handler, *_ in default_handlers if handler is SpawnHandler]
    routes += [(route, KeepNameHandler) for route, handler, *_ in user_handlers if handler is UserAPIHandler]

    def get_handlers(self: Any, app: Any) -> list[Any]:
        return [*routes, *authenticator.get_handlers(self, app)]

    return type(authenticator.__name__, (authenticator,), {"get_handlers": get_handlers})
