"""Sessions as the API answers them: the models of `core.session_status`, which says the values.

Servers ask for theirs twice a minute, so these describe the answers and do not make them; tests hold them to them.
"""

from nbgpu.core.activity import Signal
from nbgpu.core.authorize import Cause
from nbgpu.core.culling import State
from nbgpu.service.money_answers import BudgetAnswer, QuotaAnswer
from nbgpu.service.operations import Answer, Instant


class FlavorAnswer(Answer):
    """A flavor; without a kind once it is gone from the menu."""

    slug: str
    display_name: str
    kind: str | None


class StopAnswer(Answer):
    """A stop that is decided."""

    at: Instant
    cause: Cause
    text: str


class ReasonAnswer(Answer):
    """What one signal says."""

    signal: Signal
    state: State
    at: Instant | None
    value: float | None
    threshold: float | None
    text: str


class IdleAnswer(Answer):
    """What is found of a session's idleness."""

    verdict: str
    since: Instant | None
    limit_s: int | None
    would_stop_at: Instant | None
    cause: Cause | None
    move_to: str | None
    text: str | None
    reasons: list[ReasonAnswer]
    extended_until: Instant | None
    extend_s: int
    extendable_s: int


class MessageAnswer(Answer):
    """A message to everybody."""

    number: int
    text: str
    sent_at: Instant
    until: Instant


class ListedSession(Answer):
    """A session, running or ended."""

    session_id: str
    user: str
    server: str
    flavor: FlavorAnswer
    image: str
    devices: list[str]
    started_at: Instant
    as_of: Instant
    currency: str
    price_per_hour_micro: int
    cost_micro: int | None
    until: Instant | None
    time_limit_s: int | None
    stop: StopAnswer | None
    idle: IdleAnswer | None
    ended_at: Instant | None
    end: str | None
    messages: list[MessageAnswer]


class SessionAnswer(ListedSession):
    """A session with the budgets that pay for its person, and their quotas."""

    budgets: list[BudgetAnswer]
    quotas: list[QuotaAnswer]


class SessionsAnswer(Answer):
    """A page of sessions; `next` is the cursor of the page after it, `total` how many there are on all pages."""

    sessions: list[ListedSession]
    next: str | None
    total: int
