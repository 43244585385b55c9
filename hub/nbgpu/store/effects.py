"""What a change of quotas and budgets would do to what runs: worked out as the keeper does it, and nothing written."""

from collections.abc import Collection, Iterable, Iterator

from sqlalchemy import select
from sqlalchemy.orm import Session

from nbgpu.core.authorize import HOLD, Policies
from nbgpu.core.budgets import Account, Budget
from nbgpu.core.leases import ServerRef
from nbgpu.core.policy_edits import PolicyEffect
from nbgpu.core.quotas import Scope, Who
from nbgpu.store.book import Book
from nbgpu.store.limits import work_out
from nbgpu.store.schema import SessionRow

_ROUNDING = 60  # seconds
_NO_END = 2**62


def find_effect(db: Session, policies: tuple[Policies, Policies], names: Collection[str], now: int) -> PolicyEffect:
    """Return what the second policies do that the first don't; `names` are of the budgets that are new or changed."""
    before, after = policies
    old, new = Book(db, before, now), Book(db, after, now)
    ends = {row.session_id: _find_end(allowed.seconds) for row, allowed in work_out(old)}
    ending: list[ServerRef] = []
    shortened: list[ServerRef] = []
    for row, allowed in work_out(new):
        end, gone = _find_end(allowed.seconds), new.facts[row.session_id].charged(now).seconds
        was = min(ends[row.session_id], gone + HOLD)  # as much is held at a time of what has no end
        if end >= was - _ROUNDING or row.active_at is None:
            continue
        (ending if end <= gone else shortened).append(ServerRef(row.username, row.servername))
    overspent = [each for each in _accounts(db, new, names) if each.in_force and each.left < 0]
    return PolicyEffect(
        concerned=_count_concerned(new, _find_changed(before, after)),
        ending=tuple(ending),
        shortened=tuple(shortened),
        overspent=tuple(overspent),
    )


def _find_end(seconds: int | None) -> int:
    return seconds if seconds is not None else _NO_END


def _find_changed(before: Policies, after: Policies) -> list[Who]:
    """Return whom the policies are for that are in one of both alone."""
    quotas, budgets = {*before.quotas} ^ {*after.quotas}, {*before.budgets} ^ {*after.budgets}
    return [*(each.who for each in quotas), *(each.who for each in budgets)]


def _count_concerned(book: Book, changed: Iterable[Who]) -> int:
    changed = set(changed)
    return sum(any(who.covers(row.username, row.user_groups) for who in changed) for row in book.open_rows)


def _accounts(db: Session, book: Book, names: Collection[str]) -> Iterator[Account]:
    changed = [each for each in book.policies.budgets if each.name in names]
    people: Collection[str] = ()
    if any(each.who.scope is Scope.EVERYONE for each in changed):
        people = db.scalars(select(SessionRow.username).distinct().order_by(SessionRow.username)).all()
    for budget in changed:
        for owner in _owners(budget, people):
            yield book.account(budget, owner)


def _owners(budget: Budget, people: Collection[str]) -> Collection[str]:
    return people if budget.who.scope is Scope.EVERYONE else (budget.who.name,)
