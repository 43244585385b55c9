"""The service's pages with JupyterHub's own login around them, and a browser in which somebody has logged in."""

from contextlib import asynccontextmanager
from typing import ClassVar

import httpx
from jupyterhub.services.auth import HubOAuth
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, create_signed_value

from nbgpu.service.pages.routes import page_routes

PREFIX, SECRET = "/services/nbgpu/", "secret"
SCOPES = ["access:services!service=nbgpu", "read:users:name!user=ann"]
EVIL = "<i>&\"'x"


class Hub(HubOAuth):
    """JupyterHub's OAuth, with the hub's word on a token decided here: it is its owner's name."""

    rights: ClassVar = {"eve": "operate", "bill": "bill", "rita": "usage:read"}  # of those who have one
    people = frozenset({"ann", "bob", "root", "stranger", EVIL, *rights})

    async def _tell(self, token):
        if token not in self.people:
            return None
        more = [f"custom:nbgpu:{self.rights[token]}"] if token in self.rights else []
        scopes = [] if token == "stranger" else [*SCOPES, *more]
        return {"name": token, "kind": "user", "groups": [], "admin": token == "root", "scopes": scopes}

    def user_for_token(self, token, use_cache=True, *, sync=True, session_id=""):
        assert not sync, "nobody else is held up"
        return self._tell(token)


@asynccontextmanager
async def browse(find_books, name=None, *, hub=Hub, turns=None, **headers):
    """Serve the pages; give a browser in which somebody has logged in."""
    auth = hub(api_token="token", oauth_client_id="service-nbgpu", base_url=PREFIX)
    server = HTTPServer(Application(page_routes(PREFIX, find_books, auth=auth, turns=turns), cookie_secret=SECRET))
    socket, port = bind_unused_port()
    server.add_sockets([socket])
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}{PREFIX}", trust_env=False, timeout=30) as client:
        if name is not None:
            client.cookies.set(auth.cookie_name, create_signed_value(SECRET, auth.cookie_name, name).decode())
        client.headers.update(headers)
        yield client
    server.stop()
    await server.close_all_connections()
