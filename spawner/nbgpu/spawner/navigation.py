"""The service's pages, for the bar of the hub's pages and of the service's alike: with who may open each."""

from collections.abc import Collection
from dataclasses import dataclass

from nbgpu.core.scopes import BILL, OPERATE, READ_ALL
from nbgpu.core.texts import mark

_ADMIN = frozenset({"admin-ui", "admin:users"})  # a whole administrator needs no scope of ours
OPENS = {
    READ_ALL: frozenset({READ_ALL, OPERATE, BILL}) | _ADMIN,
    OPERATE: frozenset({OPERATE}) | _ADMIN,
    BILL: frozenset({BILL}) | _ADMIN,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A page in the bar."""

    name: str  # of its template, and the end of its address
    label: str  # marked
    scope: str | None = None  # that opens it; None: whoever has logged in


OWN = (
    Entry("servers", mark("Servers")),
    Entry("usage", mark("Usage")),
    Entry("prices", mark("Prices")),
)
MANAGE = (
    Entry("sessions", mark("Sessions"), OPERATE),
    Entry("pool", mark("GPUs"), OPERATE),
    Entry("limits", mark("Limits"), BILL),
    Entry("alerts", mark("Alerts"), READ_ALL),
    Entry("notices", mark("Notices"), OPERATE),
    Entry("audit", mark("Audit log"), OPERATE),
    Entry("images", mark("Images"), OPERATE),
    Entry("doctor", mark("Doctor"), OPERATE),
)


def find_managed(scopes: Collection[str]) -> tuple[Entry, ...]:
    """Return the pages under Manage that somebody with these scopes of the hub may open."""
    return tuple(each for each in MANAGE if each.scope is None or OPENS[each.scope] & set(scopes))
