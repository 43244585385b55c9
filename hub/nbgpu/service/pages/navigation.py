"""The pages that there are, for the bar at the top: each with who may open it."""

from collections.abc import Callable
from dataclasses import dataclass

from nbgpu.core.texts import mark
from nbgpu.service.callers import Caller

Test = Callable[[Caller], bool]


def anybody(caller: Caller) -> bool:  # noqa: ARG001 - as the others
    """Whoever has logged in."""
    return True


def reads_all(caller: Caller) -> bool:
    """Who may read of everybody."""
    return caller.reads_all


def operates(caller: Caller) -> bool:
    """Who may act on others' servers and on devices."""
    return caller.operates


def bills(caller: Caller) -> bool:
    """Who may set prices, quotas and budgets."""
    return caller.bills


@dataclass(frozen=True, slots=True)
class Entry:
    """A page in the bar."""

    name: str  # of its template, and the end of its address
    label: str  # marked
    may: Test = anybody


OWN = (
    Entry("servers", mark("Servers")),
    Entry("usage", mark("Usage")),
    Entry("prices", mark("Prices")),
)
MANAGE = (
    Entry("sessions", mark("Sessions"), operates),
    Entry("pool", mark("GPUs"), operates),
    Entry("limits", mark("Limits"), bills),
    Entry("alerts", mark("Alerts"), reads_all),
    Entry("notices", mark("Notices"), operates),
    Entry("audit", mark("Audit log"), operates),
    Entry("images", mark("Images"), operates),
    Entry("doctor", mark("Doctor"), operates),
)


def open_to(caller: Caller | None, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return the pages that somebody may open."""
    return tuple(each for each in entries if caller is not None and each.may(caller))
