"""Who may open which page of the service."""

from collections.abc import Callable

from nbgpu.core.scopes import BILL, OPERATE, READ_ALL
from nbgpu.service.callers import Caller
from nbgpu.spawner.navigation import Entry

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


_TESTS: dict[str | None, Test] = {None: anybody, READ_ALL: reads_all, OPERATE: operates, BILL: bills}


def open_to(caller: Caller | None, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return the pages that somebody may open."""
    return tuple(each for each in entries if caller is not None and _TESTS[each.scope](caller))
