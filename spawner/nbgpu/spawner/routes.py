"""Addresses of named servers that are stopped: the hub answers them, which knows what to say.

A route to a user's default server takes in everything below it. Without a route of its own, the address of a stopped
named server is answered by the default server where that one runs, with a 404 that explains nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jupyterhub.proxy import ConfigurableHTTPProxy, Proxy
from jupyterhub.utils import url_escape_path, url_path_join

_OF_THE_HUB = {"hub": True}


class StoppedServersMixin(Proxy):  # type: ignore[misc]  # JupyterHub has no types
    """A proxy whose routes for stopped named servers lead to the hub."""

    async def delete_user(self, user: Any, server_name: str = "") -> None:
        """Take the route to a server away; that of a named one leads to the hub from now on."""
        await super().delete_user(user, server_name)
        if server_name:
            await self.add_route(_address(user, server_name), self.hub.host, _OF_THE_HUB)

    async def check_routes(
        self, user_dict: Mapping[Any, Any], service_dict: Mapping[Any, Any], routes: dict[str, Any] | None = None
    ) -> None:
        """Check all routes. JupyterHub takes those of stopped servers for stale ones: it is not shown them."""
        routes = routes or await self.get_all_routes()
        stopped = dict(_stopped(user_dict))
        await super().check_routes(
            user_dict, service_dict, {spec: route for spec, route in routes.items() if spec not in stopped}
        )
        for address, (user, name) in stopped.items():
            is_there = routes.get(address, {}).get("target") == self.hub.host
            if not is_there and not _is_active(user, name):  # asked again: it may be starting by now
                await self.add_route(address, self.hub.host, _OF_THE_HUB)


class HubProxy(StoppedServersMixin, ConfigurableHTTPProxy):  # type: ignore[misc]  # JupyterHub has no types
    """The proxy of the hub."""


def _stopped(users: Mapping[Any, Any]) -> Iterator[tuple[str, tuple[Any, str]]]:
    """The addresses of all named servers that do nothing now, of the users whose default server does."""
    for user in users.values():
        if _is_active(user, ""):
            for name in user.orm_user.orm_spawners:
                if name and not _is_active(user, name):
                    yield _address(user, name), (user, name)


def _is_active(user: Any, name: str) -> bool:
    return name in user.spawners and bool(user.spawners[name].active)


def _address(user: Any, name: str) -> str:
    return str(url_path_join(user.proxy_spec, url_escape_path(name), "/"))
