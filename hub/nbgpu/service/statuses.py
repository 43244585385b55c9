"""The status of sessions, as thousands of servers ask for theirs twice a minute: all are read in one go, now and then.

Money and quotas are about a minute old, sessions some seconds.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from nbgpu.core.broadcasts import Broadcast, shown
from nbgpu.core.idle_view import IdleView
from nbgpu.core.periods import to_seconds
from nbgpu.core.plain import plain_account, plain_quota
from nbgpu.core.prices import PriceSheet
from nbgpu.core.session_status import plain_session
from nbgpu.core.statement_form import find_zone
from nbgpu.service.books import Books, IdleBook
from nbgpu.service.recent import Recent

AGE = 60.0  # seconds
AGE_OF_SESSIONS = 10.0  # seconds: between two looks at idle servers there is more
_ALL = ""

Person = tuple[str, tuple[str, ...]]  # name and groups
Purse = dict[str, list[dict[str, Any]]]  # budgets and quotas


class Statuses:
    """Makes statuses; its methods may block: use a thread."""

    def __init__(self, *, age: float = AGE, age_of_sessions: float = AGE_OF_SESSIONS) -> None:
        self._sessions: Recent[str, Mapping[str, IdleView]] = Recent(age_of_sessions)
        self._costs: Recent[str, int] = Recent(age)
        self._purses: Recent[Person, Purse] = Recent(age)
        self._sheets: Recent[str, PriceSheet] = Recent(age_of_sessions)
        self._broadcasts: Recent[str, tuple[Broadcast, ...]] = Recent(age_of_sessions)

    def running(self, books: Books, idle: IdleBook, session_id: str) -> IdleView | None:
        """Return a session that ran some seconds ago; None also for one that is newer."""
        return self._sessions.get([_ALL], lambda _: {_ALL: self._read_all(books, idle)})[_ALL].get(session_id)

    def of(self, books: Books, views: Sequence[IdleView]) -> list[dict[str, Any]]:
        """Return sessions as JSON has them, without the budgets and quotas of their people."""
        now, zone = books.clock(), find_zone(books.timezone)
        broadcasts = self._broadcasts.get([_ALL], lambda _: {_ALL: _read_broadcasts(books)})[_ALL]
        sheet = self._sheets.get([_ALL], lambda _: {_ALL: books.prices.sheet()})[_ALL]
        costs = self._costs.get([view.session_id for view in views], books.limits.costs)
        return [
            plain_session(
                view,
                now=now,
                zone=zone,
                flavor=books.flavors.get(view.flavor),
                currency=books.currency,
                cost=costs.get(view.session_id),
                price=_find_price(view, sheet, now),
                broadcasts=shown(broadcasts, now),
            )
            for view in views
        ]

    def full(self, books: Books, view: IdleView) -> dict[str, Any]:
        """Return one session with the budgets that pay for its person, and their quotas."""
        person = _person(view)
        return self.of(books, [view])[0] | self._purses.get([person], partial(_read_purses, books))[person]

    def _read_all(self, books: Books, idle: IdleBook) -> Mapping[str, IdleView]:
        """Return all that run, and see that what they cost and may cost is known: each asks for it soon."""
        views = {view.session_id: view for view in idle.running(None)}
        self._costs.get(views, books.limits.costs)
        self._purses.get({_person(view) for view in views.values()}, partial(_read_purses, books))
        return views


def _person(view: IdleView) -> Person:
    return view.server.username, view.groups


def _find_price(view: IdleView, sheet: PriceSheet, now: datetime) -> int | None:
    if view.ended_at is not None:
        return None
    return sheet.hourly(view.flavor, len(view.devices), to_seconds(now))


def _read_broadcasts(books: Books) -> tuple[Broadcast, ...]:
    return books.broadcasts.current() if books.broadcasts is not None else ()


def _read_purses(books: Books, people: Sequence[Person]) -> Mapping[Person, Purse]:
    now = to_seconds(books.clock())
    return {
        person: {
            "budgets": [plain_account(account, now) for account in accounts],
            "quotas": [plain_quota(quota) for quota in quotas],
        }
        for person, (accounts, quotas) in books.limits.purses(people).items()
    }
