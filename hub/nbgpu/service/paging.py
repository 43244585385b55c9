"""Lists that can be long are answered a page at a time. A cursor is opaque: where the next page begins."""

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass

from nbgpu.core.errors import InvalidOptions
from nbgpu.service.operations import Parameter

MOST, USUAL = 500, 100
LONGEST = 2000  # characters of a cursor
LIMIT = Parameter(
    name="limit",
    description=f"How many at most, 1 to {MOST}; {USUAL} by default.",
    schema={"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL},
)
CURSOR = Parameter(name="cursor", description="Where the page begins: `next` of the answer before it.")
PAGING = (LIMIT, CURSOR)

Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A page that is asked for: what comes after `after`; None is the first."""

    limit: int
    after: Key | None


def parse_page(text: Callable[[str], str | None], *, kinds: tuple[type[str] | type[int], ...]) -> Page:
    """Return the page of a request's parameters; `kinds` is of what a cursor consists. Raises InvalidOptions."""
    limit, cursor = text("limit"), text("cursor")
    if limit is not None and not (limit.isascii() and limit.isdecimal() and len(limit) < 5 and 1 <= int(limit) <= MOST):
        raise InvalidOptions(f"limit “{limit[:40]}” is none: it is a whole number from 1 to {MOST}.")
    after = _parse_cursor(cursor, kinds) if cursor is not None else None
    return Page(int(limit) if limit is not None else USUAL, after)


def to_cursor(*key: str | int) -> str:
    """Return where a page that comes after something begins; `key` is by what it is found again."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def _parse_cursor(cursor: str, kinds: tuple[type[str] | type[int], ...]) -> Key:
    try:
        if len(cursor) > LONGEST:
            raise ValueError
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        key = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if not isinstance(key, list) or [type(each) for each in key] != list(kinds):
            raise ValueError
        if any(isinstance(each, int) and not -(2**63) <= each < 2**63 for each in key):
            raise ValueError
    except (ValueError, binascii.Error, RecursionError):
        raise InvalidOptions(
            "This cursor is none of this list. Take it from `next` of the answer before, or begin without one."
        ) from None
    return tuple(key)
