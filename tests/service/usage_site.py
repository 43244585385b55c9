"""The page of usage with JupyterHub's own login around it, for tests and benchmarks; the books are the caller's."""

from contextlib import asynccontextmanager

import httpx
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, create_signed_value

from nbgpu.service.pages.routes import page_routes
from service.test_pages import PREFIX, SECRET, Hub


class Groups(Hub):
    """The hub's word, with the groups that some are in."""

    people = Hub.people | {"user-0042"}

    async def _tell(self, token):
        model = await super()._tell(token)
        return model and model | {"groups": ["staff"] if token == "bob" else []}


@asynccontextmanager
async def browsing(books, name=None, *, turns=None, **headers):
    """Serve the pages; give a browser in which somebody has logged in."""
    auth = Groups(api_token="token", oauth_client_id="service-nbgpu", base_url=PREFIX)
    server = HTTPServer(Application(page_routes(PREFIX, lambda: books, auth=auth, turns=turns), cookie_secret=SECRET))
    socket, port = bind_unused_port()
    server.add_sockets([socket])
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}{PREFIX}", trust_env=False, timeout=30) as client:
        if name is not None:
            client.cookies.set(auth.cookie_name, create_signed_value(SECRET, auth.cookie_name, name).decode())
        client.headers.update(headers)
        yield client
    server.stop()
    await server.close_all_connections()
