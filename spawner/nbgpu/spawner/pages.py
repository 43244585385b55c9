"""What the hub's templates of ours can ask for: texts in the reader's language, and a user's own sessions.

JupyterHub hands `template_vars` to every page, after calling each callable with the user; what depends on the request
is found through the handler that renders, of which the hub passes a bound method.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from nbgpu.core.board import Board
from nbgpu.core.errors import NbgpuError
from nbgpu.core.menu import Choice
from nbgpu.spawner.desk import Desk
from nbgpu.spawner.failures import explain_failure
from nbgpu.spawner.i18n import COOKIE, LANGUAGES, Translator, translator_for
from nbgpu.spawner.navigation import OWN, find_managed
from nbgpu.spawner.progress import TEMPLATES
from nbgpu.spawner.purse import Meter
from nbgpu.spawner.sessions import SessionView


def build_template_vars(desk: Desk) -> dict[str, object]:
    """Return the names that our templates use; `desk` tells of sessions."""
    pages = _Pages(desk)
    functions: dict[str, Callable[..., Any]] = {
        "_": _markup,
        "say": _say,
        "span": _span,
        "time": Translator.time,
        "lang": _lang,
        "quote": partial(quote, safe=""),
        "progress_texts": _progress_texts,
        "explain_failure": explain_failure,
        "own_pages": lambda: OWN,
        "managed_pages": find_managed,
        "find_restarting": _find_restarting,
        "sessions_of": pages.sessions_of,
        "last_choice_of": pages.last_choice_of,
        "meters_of": pages.meters_of,
        "board": pages.board,
    }
    # Each is wrapped because the hub calls what it finds, with the user.
    wrapped: dict[str, object] = {name: _constant(function) for name, function in functions.items()}
    return wrapped | {"languages": LANGUAGES, "lang_cookie": COOKIE}


def _constant(function: Callable[..., Any]) -> Callable[[object], Callable[..., Any]]:
    return lambda _user: function


def _handler(context: Context) -> Any:
    return getattr(context.get("static_url"), "__self__", None)


def _translator(context: Context) -> Translator:
    return translator_for(_handler(context))


@pass_context
def _markup(context: Context, text: object, /, **params: object) -> Markup:
    return _translator(context).markup(text, **params)


@pass_context
def _say(context: Context, text: object, /, **params: object) -> str:
    return _translator(context).say(text, **params)


@pass_context
def _span(context: Context, span: timedelta) -> str:
    return _translator(context).span(span)


@pass_context
def _lang(context: Context) -> str:
    return _translator(context).language


@pass_context
def _progress_texts(context: Context) -> dict[str, str]:
    """What a start reports, template by template, in the reader's language."""
    translator = _translator(context)
    return {template: translator.say(template) for template in TEMPLATES}


@pass_context
def _find_restarting(context: Context) -> str:
    """Return the path of our own service that the proxy could not reach, which it tells as `url`; "" for all else."""
    asked = getattr(getattr(_handler(context), "request", None), "query_arguments", {}).get("url", [b""])[-1]
    own, path = f"{context.get('prefix', '/')}services/nbgpu/", asked.decode(errors="replace")
    if context.get("status_code") != HTTPStatus.SERVICE_UNAVAILABLE or not path.startswith(own):
        return ""
    rest = path.removeprefix(own)
    is_plain = re.fullmatch(r"[\w/.~%?&=+:,-]*", rest, re.ASCII) and not re.search(r"(\.|%2e){2}", rest, re.IGNORECASE)
    return path if is_plain else f"{own}servers"


class _Pages:
    """What a user may see of their servers; administrators see everybody's."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @pass_context
    async def sessions_of(self, context: Context, user: Any, names: Iterable[str]) -> dict[str, SessionView]:
        """Return the newest session of each server; nothing to others, nor while the database does not answer."""
        if not _may_see(context, user):
            return {}
        try:
            return await asyncio.to_thread(self._desk.sessions, user.name, tuple(names))
        except NbgpuError:
            return {}

    async def board(self) -> Board:
        """Return what everybody is told; nothing while the database does not answer."""
        try:
            return await asyncio.to_thread(self._desk.board)
        except NbgpuError:
            return Board()

    @pass_context
    async def meters_of(self, context: Context, user: Any) -> tuple[Meter, ...]:
        """Return what a user may still spend and use; nothing to others, nor while the database does not answer."""
        if not _may_see(context, user):
            return ()
        groups = tuple(group.name for group in user.groups)
        try:
            return await asyncio.to_thread(self._desk.meters, user.name, groups)
        except NbgpuError:
            return ()

    @pass_context
    def last_choice_of(self, context: Context, user: Any, servername: str) -> Choice | None:
        """Return what the server was last started with, if the user may still have it."""
        orm_spawner = user.orm_user.orm_spawners.get(servername)
        options = getattr(orm_spawner, "user_options", None)
        if not options or not _may_see(context, user):
            return None
        try:
            return self._desk.menu.choose(options, frozenset(group.name for group in user.groups))
        except NbgpuError:
            return None


def _may_see(context: Context, user: Any) -> bool:
    viewer = getattr(_handler(context), "current_user", None)
    return viewer is not None and (viewer.name == user.name or bool(viewer.admin))
