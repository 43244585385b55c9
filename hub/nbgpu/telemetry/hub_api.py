"""The hub as its REST API tells: which servers run or are pending, and having one started."""

from typing import Any
from urllib.parse import quote

import httpx

from nbgpu.core.errors import HubRefused, HubUnavailable
from nbgpu.core.leases import Lease, ServerRef
from nbgpu.core.menu import FLAVOR_KEY, IMAGE_KEY
from nbgpu.core.reconcile import HubServer

_PAGES = {"Accept": "application/jupyterhub-pagination+json"}
_NEVER = (400, 403, 404)  # statuses that trying again won't change …
_BUSY = ("is pending", "is already running")  # … but for these: the hub is at work on the server


class HubApi:
    """A client of the hub's API with a token of its own."""

    def __init__(self, url: str, token: str, *, timeout: float = 20.0) -> None:
        """Take the API's URL, like "http://172.18.0.1:8081/hub/api"; `timeout` in seconds bounds each call."""
        self._client = httpx.Client(
            base_url=url, headers={"Authorization": f"token {token}"} | _PAGES, timeout=timeout, trust_env=False
        )

    def servers(self) -> tuple[HubServer, ...]:
        """Return all servers that run or are pending. Raises HubUnavailable."""
        return self._list()

    def find(self, server: ServerRef) -> HubServer | None:
        """Return one server if it runs or is pending. Raises HubUnavailable.

        It is found in a list: a single user's address answers 404 to whoever may not see the user, too, and nothing
        may be taken for "not running" because of that.
        """
        # The hub matches the text anywhere in a name; a backslash means something to some databases.
        narrowed = {} if "\\" in server.username else {"name_filter": server.username}
        return next((each for each in self._list(**narrowed) if each.server == server), None)

    def _list(self, **narrowed: str) -> tuple[HubServer, ...]:
        found: list[HubServer] = []
        offset: int | None = 0
        while offset is not None:
            answer = self._call("GET", "/users", params={"state": "active", "offset": offset, **narrowed})
            try:
                page = answer.json()
                found += [server for user in page["items"] for server in _servers_of(user)]
                following = page["_pagination"]["next"]
            except (ValueError, KeyError, TypeError) as error:  # something else answers at that address
                raise HubUnavailable(f"The hub's list of users can't be read: {answer.text[:200]}") from error
            offset = following["offset"] if following else None
        return tuple(found)

    def start(self, lease: Lease) -> None:
        """Have the hub start the lease's server. Raises HubUnavailable, or HubRefused when it never will."""
        self.start_as(lease.server, lease.flavor, lease.image)

    def start_as(self, server: ServerRef, flavor: str, image: str) -> None:
        """Have the hub start a server. Raises HubUnavailable, or HubRefused when it never will."""
        self._call("POST", _path(server), json={FLAVOR_KEY: flavor, IMAGE_KEY: image})

    def stop(self, server: ServerRef) -> None:
        """Have the hub stop a server. Raises HubUnavailable, or HubRefused when it has none."""
        self._call("DELETE", _path(server))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _call(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            response = self._client.request(method, path, **more)
        except httpx.HTTPError as error:
            raise HubUnavailable(
                f"The hub does not answer at {self._client.base_url} ({error}). Does it run? `nbgpu run` starts it."
            ) from error
        if response.status_code in _NEVER and not any(words in response.text for words in _BUSY):
            raise HubRefused(f"The hub refused {method} {path}: {response.text[:200]}")
        if not response.is_success:
            raise HubUnavailable(f"The hub answered {response.status_code} to {method} {path}: {response.text[:200]}")
        return response


def _path(server: ServerRef) -> str:
    path = f"/users/{quote(server.username, safe='')}"
    return f"{path}/servers/{quote(server.servername, safe='')}" if server.servername else f"{path}/server"


def _servers_of(user: dict[str, Any]) -> list[HubServer]:
    return [
        HubServer(
            server=ServerRef(user["name"], name),
            session_id=(model.get("state") or {}).get("session_id"),
            pending=bool(model.get("pending")),
        )
        for name, model in user["servers"].items()
    ]
