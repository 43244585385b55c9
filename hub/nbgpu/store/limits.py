"""Quotas and budgets, judged in the transaction that acts on it: at a start, and again for what runs."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy.orm import Session

from nbgpu.core.authorize import Authorization, Cause, Policies, Standing, authorize_more, authorize_start
from nbgpu.core.budgets import find_payer, find_pools
from nbgpu.core.leases import ServerRef
from nbgpu.core.menu import Choice
from nbgpu.core.quotas import Ask
from nbgpu.store.book import Book, paid_with
from nbgpu.store.ledger import lock_ledger
from nbgpu.store.schema import SessionRow

_ROUNDING = 2  # seconds


@dataclass(frozen=True, slots=True)
class Allowance:
    """How long a running session may run in all, in seconds; None is no limit."""

    seconds: int | None
    cause: Cause | None


def authorize_new(
    db: Session, server: ServerRef, choice: Choice, groups: Iterable[str], policies: Policies, now: int
) -> Authorization:
    """Return how long a session that is about to begin may run. Raises QuotaExceeded and BudgetExceeded."""
    flavor = choice.flavor
    ask = Ask(
        username=server.username,
        groups=tuple(sorted(groups)),
        flavor=flavor.slug,
        title=flavor.display_name,
        devices=flavor.gpus,
        price_per_hour=flavor.price_per_hour,
        time_limit=int(flavor.time_limit.total_seconds()) if flavor.time_limit is not None else None,
    )
    if not policies.quotas and not policies.budgets:  # most sites: nothing needs to be looked up
        return authorize_start(ask, Standing(), policies, now)
    pools = find_pools(policies.budgets, ask.groups)
    if policies.budgets:
        lock_ledger(db)  # what the meter posts meanwhile would be counted twice, or not at all
    book = Book(db, policies, now, paid_with(ask.username, pools))
    return authorize_start(book.priced(ask), book.standing(ask, pools), policies, now)


def authorize_running(book: Book) -> dict[str, Allowance]:
    """Work out anew, oldest first, how long each running session may run; return those that changed, by session."""
    return {row.session_id: allowance for row, allowance in work_out(book) if _is_new(row, allowance)}


def work_out(book: Book) -> list[tuple[SessionRow, Allowance]]:
    """Return how long each running session may run by the book's policies, oldest first."""
    book.forget_holds()
    return [(row, _authorize_more(book, row, book.policies)) for row in book.open_rows]


def _authorize_more(book: Book, row: SessionRow, policies: Policies) -> Allowance:
    ask = book.ask(row)
    pools = find_payer(policies.budgets, row.paid_by)
    more = authorize_more(ask, book.standing(ask, pools), policies, book.now)
    seconds = None if more.seconds is None else ask.elapsed + more.seconds
    if seconds is not None and not more.seconds and row.authorized_seconds is not None:
        seconds = min(seconds, row.authorized_seconds)  # it ran out then, not at this look
    book.allow(row, seconds)
    return Allowance(seconds, more.cause)


def _is_new(row: SessionRow, found: Allowance) -> bool:
    """Whether what a session may run is another, by more than what rounding to seconds does at each look."""
    if found.seconds is None or row.authorized_seconds is None or found.cause != row.authorized_by:
        return (found.seconds, found.cause) != (row.authorized_seconds, row.authorized_by)
    return abs(found.seconds - row.authorized_seconds) > _ROUNDING
