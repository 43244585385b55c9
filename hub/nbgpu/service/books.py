"""What the API tells of: the ports that it reads from."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from nbgpu.core.budgets import Account
from nbgpu.core.ledger import Charge
from nbgpu.core.prices import PriceSheet
from nbgpu.core.quotas import Quota
from nbgpu.core.statement import Part, Question
from nbgpu.core.stops import PlannedStop


class Statements(Protocol):
    """Statements out of the ledger. May block."""

    def read(self, question: Question, now: datetime) -> tuple[Part, ...]:
        """Return a statement's lines."""

    def charges(self, question: Question, now: datetime) -> Iterable[tuple[Charge, bool]]:
        """Yield the single lines, each with whether it is posted."""

    def knows(self, username: str) -> bool:
        """Return whether anybody of that name ever had a session, or money of theirs was counted."""


class Limits(Protocol):
    """Budgets and quotas as they stand. May block."""

    def accounts(self, username: str, groups: Iterable[str] | None) -> tuple[Account, ...]:
        """Return those that pay for a person; without `groups` those of their newest session."""

    def all_accounts(self) -> tuple[Account, ...]:
        """Return all."""

    def quotas(self, username: str, groups: Iterable[str] | None = None) -> tuple[Quota, ...]:
        """Return a person's limits."""


class Prices(Protocol):
    """The price sheets. May block."""

    def sheet(self) -> PriceSheet:
        """Return all prices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What the API tells of, once the service has it."""

    statements: Statements
    limits: Limits
    prices: Prices
    clock: Callable[[], datetime]
    timezone: str
    account_id: str
    find_due: Callable[[], Sequence[PlannedStop]] = tuple  # idle servers that are to be stopped now; may block
