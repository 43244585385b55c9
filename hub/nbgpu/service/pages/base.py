"""What the service's pages have in common: the hub's login, headers, language, errors as a page.

The hub tells who somebody is by OAuth; a cookie of this path alone keeps the token. What changes anything is a form
with JupyterHub's token against forgery, without which the cookie counts for nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, ClassVar

from jupyterhub.services.auth import HubOAuth, HubOAuthCallbackHandler, HubOAuthenticated
from tornado.web import HTTPError, RequestHandler, StaticFileHandler

from nbgpu.core.board import Board
from nbgpu.core.errors import NbgpuError, Refusal
from nbgpu.core.texts import mark
from nbgpu.service.books import Books, IdleBook
from nbgpu.service.callers import Caller, to_caller
from nbgpu.service.handler import needed
from nbgpu.service.pages import navigation
from nbgpu.service.pages.look import POLICY, render
from nbgpu.service.pages.navigation import Test, open_to
from nbgpu.spawner.i18n import Translator, translator_for
from nbgpu.spawner.navigation import MANAGE, OWN

_NOT_FOR_ALL = mark("This page is for people who may use the nbgpu service.")
_OTHERS = mark("This page is for those who run this place. Ask an administrator for the right to it.")
_OLD = mark("Reload the page: you are not logged in, or the form is old.")
_NOTHING = mark("There is no such page")
_STARTING = mark("The service is starting. Try again in a moment.")

log = logging.getLogger("nbgpu.service")


@dataclass(frozen=True, slots=True)
class Frame:
    """What all pages need."""

    prefix: str  # of the service, like "/services/nbgpu/"
    find_books: Callable[[], Books | None]
    auth: HubOAuth


class PageHandler(HubOAuthenticated, RequestHandler):  # type: ignore[misc]  # JupyterHub has no types
    """A page of somebody who has logged in."""

    caller: Caller
    is_admin = False
    board = Board()
    may: ClassVar[Test] = navigation.anybody

    def initialize(self, frame: Frame) -> None:
        """Take what all pages need."""
        self.frame = frame
        self.hub_auth = frame.auth

    def set_default_headers(self) -> None:
        """Pages are somebody's own, load nothing from elsewhere and are in no frame."""
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")
        self.set_header("Content-Security-Policy", POLICY)
        self.clear_header("Server")

    async def prepare(self) -> None:
        """Find out who asks; who has not logged in goes to the hub for it. 403 where that can't be, or may not ask."""
        model = await self.hub_auth.get_user(self, sync=False)
        self._hub_auth_user_cache = model  # JupyterHub's own way to it would hold up all others
        if model is None:
            self._send_to_login()
            return
        caller = to_caller(model)
        if caller is None or caller.server is not None:
            raise HTTPError(HTTPStatus.FORBIDDEN, reason=_NOT_FOR_ALL)
        # A cookie's token has none of its person's rights; that they are an administrator is in the model.
        self.is_admin = bool(model.get("admin")) and not getattr(self, "_token_authenticated", False)
        if self.is_admin:
            caller = replace(caller, reads_all=True, operates=True, bills=True)
        if not type(self).may(caller):
            raise HTTPError(HTTPStatus.FORBIDDEN, reason=_OTHERS)
        self.caller = caller
        self.board = await asyncio.to_thread(self._read_board)

    def _read_board(self) -> Board:
        """Return what everybody is told; nothing while that can't be asked: the page is not about it."""
        books = self.frame.find_books()
        if books is None or books.board is None:
            return Board()
        try:
            return books.board.read()
        except NbgpuError as error:
            log.info("The pages can't tell what everybody is told: %s", error)
            return Board()

    def _send_to_login(self) -> None:
        is_visit = self.request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
        if self.request.method != "GET" or not is_visit:
            raise HTTPError(HTTPStatus.FORBIDDEN, reason=_OLD)
        self.redirect(self.get_login_url())

    @property
    def books(self) -> Books:
        """The books. 503 while the service begins."""
        found = self.frame.find_books()
        if found is None:
            raise HTTPError(HTTPStatus.SERVICE_UNAVAILABLE, reason=_STARTING)
        return found

    @property
    def idle(self) -> IdleBook:
        """The sessions. 503 while the service begins."""
        return needed(self.books.idle)

    @property
    def translator(self) -> Translator:
        """The reader's language."""
        return translator_for(self)

    def show(self, name: str, **values: Any) -> None:
        """Answer with a page."""
        hub, books = self.hub_auth.hub_prefix, self.frame.find_books()
        caller = getattr(self, "caller", None)
        self.finish(
            render(
                name,
                self.translator,
                here=name.removesuffix(".html"),
                prefix=self.frame.prefix,
                hub=hub,
                site=hub.removesuffix("hub/"),
                viewer=caller,
                board=self.board,
                own_pages=open_to(caller, OWN),
                manage_pages=open_to(caller, MANAGE),
                is_admin=self.is_admin,
                is_simulated=books is not None and books.is_simulated,
                is_local=books is not None and books.is_local,
                xsrf=self.xsrf_token.decode() if caller is not None else "",
                **values,
            )
        )

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer with a page that says what is wrong; what is not ours to tell is told in general words."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        text: object = HTTPStatus(status_code).phrase
        if isinstance(error, NbgpuError):
            status_code = error.status_code if isinstance(error, Refusal) else HTTPStatus.SERVICE_UNAVAILABLE
            text = error.text
        elif isinstance(error, HTTPError) and error.reason:
            text = error.reason
        self.set_status(status_code)
        self.show("error.html", text=text)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log a surprise with its traceback; a refusal is in its answer."""
        if isinstance(value, NbgpuError):
            log.info("%s %s: %s", self.request.method, self.request.path, value)
        else:
            super().log_exception(typ, value, tb)


class NothingPage(PageHandler):
    """All paths that are no page."""

    def get(self) -> None:
        """Say so."""
        raise HTTPError(HTTPStatus.NOT_FOUND, reason=_NOTHING)


class ReaderPage(PageHandler):
    """A page for who may read of everybody."""

    may = navigation.reads_all


class OperatorPage(PageHandler):
    """A page for who may act on others' servers and on devices."""

    may = navigation.operates


class BillerPage(PageHandler):
    """A page for who may set prices, quotas and budgets."""

    may = navigation.bills


class CallbackHandler(HubOAuthCallbackHandler):  # type: ignore[misc]  # JupyterHub has no types
    """Where the hub sends people back after the login."""

    def initialize(self, frame: Frame) -> None:
        """Take what all pages need."""
        self.hub_auth = frame.auth

    async def prepare(self) -> None:
        """Find out who asks without holding up all others."""
        self._hub_auth_user_cache = await self.hub_auth.get_user(self, sync=False)


class FileHandler(StaticFileHandler):
    """A file of the pages."""

    def set_extra_headers(self, path: str) -> None:  # noqa: ARG002 - Tornado's signature
        """A browser asks each time whether it is a new one: it goes with the version that runs."""
        self.set_header("Cache-Control", "no-cache")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.clear_header("Server")
