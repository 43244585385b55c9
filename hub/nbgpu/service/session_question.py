"""What somebody looks for among the sessions, for the page and the API alike."""

from collections.abc import Callable
from typing import TypeVar

from nbgpu.core.errors import InvalidOptions
from nbgpu.core.session_list import Order, Place, SessionQuestion, Wanted
from nbgpu.core.texts import Text
from nbgpu.service.audit_question import LONGEST, parse_days
from nbgpu.service.operations import DAY, Parameter
from nbgpu.service.paging import Page, parse_page, to_cursor

FILTERS = (
    Parameter(
        name="state",
        description="Those that run, which is the default, those that ended, or all.",
        schema={"type": "string", "enum": list(Wanted), "default": Wanted.RUNNING},
    ),
    Parameter(name="user", description="Whose; for who reads all."),
    Parameter(name="group", description="Whose person was in this group at the start."),
    Parameter(name="flavor", description="Of this flavor, by its slug."),
    Parameter(name="q", description="Whose user/server and flavor have this text, in any case."),
    Parameter(
        name="from", description="Asked for on this day or later, like 2026-11-01, by the settings' zone.", schema=DAY
    ),
    Parameter(name="to", description="Asked for on this day or before.", schema=DAY),
    Parameter(
        name="sort",
        description="In which order; with a minus the other way round.",
        schema={"type": "string", "enum": list(Order), "default": Order.NEWEST},
    ),
)
_LATEST = 253_402_300_800 * 10**6  # microseconds: the year 10000
E = TypeVar("E", Wanted, Order)


def parse_session_question(
    text: Callable[[str], str | None], timezone: str, *, username: str | None, servername: str | None = None
) -> SessionQuestion:
    """Return what a request's parameters, which `text` gives, look for; of one user only where they are named.

    Blocks: a zone is a file. Raises InvalidOptions.
    """
    since, before = parse_days(text, timezone)
    return SessionQuestion(
        wanted=_choose("state", text("state"), Wanted.RUNNING),
        order=_choose("sort", text("sort"), Order.NEWEST),
        text=(_plain(text("q")) or "")[:LONGEST],
        username=_plain(username),
        servername=servername,
        group=_plain(text("group")),
        flavor=_plain(text("flavor")),
        since=since,
        before=before,
    )


def parse_session_page(text: Callable[[str], str | None], order: Order) -> tuple[Page, Place | None]:
    """Return the page that is asked for, and beyond which place it is. Raises InvalidOptions."""
    kind = int if order.by in ("cost", "ran") else str
    page = parse_page(text, kinds=(str, kind, int, str))
    if page.after is None:
        return page, None
    cursor_order, value, created, session_id = page.after
    if cursor_order != order or not 0 <= int(created) < _LATEST or "\0" in f"{value}{session_id}":
        raise InvalidOptions("This cursor is of a list in another order. Begin without one.")
    return page, Place(value, int(created), str(session_id))


def place_cursor(order: Order, place: Place) -> str:
    """Return where a page beyond a place begins."""
    return to_cursor(order.value, place.value, place.created, place.session_id)


def _plain(text: str | None) -> str | None:
    if text is not None and "\0" in text:
        raise InvalidOptions(Text("There is a character that is in no name."))
    return text or None


def _choose(name: str, typed: str | None, default: E) -> E:
    kind = type(default)
    if not typed:
        return default
    try:
        return kind(typed)
    except ValueError:
        found = Text(
            "%(name)s “%(typed)s” is not known; there are: %(all)s.", name=name, typed=typed[:40], all=", ".join(kind)
        )
        raise InvalidOptions(found) from None
