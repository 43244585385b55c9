"""The status of sessions, as thousands of servers ask for theirs twice a minute: money and quotas are a minute old."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from nbgpu.core.idle_view import IdleView
from nbgpu.core.periods import to_seconds
from nbgpu.core.plain import plain_account, plain_quota
from nbgpu.core.session_status import plain_session
from nbgpu.core.statement_form import find_zone
from nbgpu.service.books import Books
from nbgpu.service.recent import Recent

AGE = 60.0  # seconds

Person = tuple[str, tuple[str, ...]]  # name and groups
Purse = dict[str, list[dict[str, Any]]]  # budgets and quotas


class Statuses:
    """Makes statuses; its methods may block: use a thread."""

    def __init__(self, *, age: float = AGE) -> None:
        self._costs: Recent[str, int] = Recent(age, together=True)
        self._purses: Recent[Person, Purse] = Recent(age)

    def of(self, books: Books, views: Sequence[IdleView]) -> list[dict[str, Any]]:
        """Return sessions as JSON has them, without the budgets and quotas of their people."""
        now, zone = books.clock(), find_zone(books.timezone)
        costs = self._costs.get([view.session_id for view in views], books.limits.costs)
        return [
            plain_session(
                view,
                now=now,
                zone=zone,
                flavor=books.flavors.get(view.flavor),
                currency=books.currency,
                cost=costs.get(view.session_id),
            )
            for view in views
        ]

    def full(self, books: Books, view: IdleView) -> dict[str, Any]:
        """Return one session with the budgets that pay for its person, and their quotas."""
        person = (view.server.username, view.groups)
        purses = self._purses.get([person], lambda people: _read_purses(books, people))
        return self.of(books, [view])[0] | purses[person]


def _read_purses(books: Books, people: Sequence[Person]) -> Mapping[Person, Purse]:
    now = books.clock()
    return {person: _read_purse(books, person, now) for person in people}


def _read_purse(books: Books, person: Person, now: datetime) -> Purse:
    accounts = books.limits.accounts(*person)
    return {
        "budgets": [plain_account(account, to_seconds(now)) for account in accounts],
        "quotas": [plain_quota(quota) for quota in books.limits.quotas(*person)],
    }
