"""What the API tells of: the ports that it reads from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import EllipsisType
from typing import TYPE_CHECKING, Protocol

from nbgpu.core.activity import Report
from nbgpu.core.audit import AuditEntry, AuditQuestion
from nbgpu.core.board import Board
from nbgpu.core.broadcasts import Broadcast
from nbgpu.core.budgets import Account, Alert
from nbgpu.core.findings import Examination
from nbgpu.core.flavors import Flavor
from nbgpu.core.idle_view import IdleView
from nbgpu.core.leases import ServerRef
from nbgpu.core.ledger import Charge
from nbgpu.core.maintenance import Maintenance
from nbgpu.core.pool import Pool
from nbgpu.core.prices import Price, PriceSheet
from nbgpu.core.quotas import Quota
from nbgpu.core.session_list import Place, SessionPage, SessionQuestion
from nbgpu.core.statement import Part, Question
from nbgpu.core.stops import PlannedStop
from nbgpu.service.policy_desk import PolicyDesk
from nbgpu.service.policy_import import CreditDesk

if TYPE_CHECKING:
    from nbgpu.images.listing import ListedImage  # with it comes Docker, which takes its time


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

    def alerts(self) -> tuple[Alert, ...]:
        """Return the newest alerts, newest first."""

    def purses(
        self, people: Iterable[tuple[str, tuple[str, ...]]]
    ) -> dict[tuple[str, tuple[str, ...]], tuple[tuple[Account, ...], tuple[Quota, ...]]]:
        """Return the accounts and limits of many people, each with their groups."""

    def costs(self, session_ids: Iterable[str]) -> dict[str, int]:
        """Return what sessions have cost so far, in micro-units."""


class Prices(Protocol):
    """The price sheets. May block."""

    def sheet(self) -> PriceSheet:
        """Return all prices."""

    def add(self, prices: Iterable[Price], *, author: str) -> None:
        """Set prices."""


class IdleBook(Protocol):
    """Sessions and what is found of their idleness. All but `report` may block."""

    def running(self, username: str | None) -> Sequence[IdleView]:
        """Return a user's sessions that run; everybody's where it is None."""

    def find(self, session_id: str) -> IdleView | None:
        """Return a session, running or ended."""

    def newest(self, server: ServerRef) -> IdleView | None:
        """Return a server's newest session, running or ended."""

    def report(self, session_id: str, report: Report) -> None:
        """Take what a server tells of itself. Quick: it is kept in memory."""

    def extend(self, session_id: str, seconds: int, *, by: str, as_admin: bool) -> IdleView:
        """Have a session not stopped for being idle for longer, with 0 seconds for as long as one click gives.

        Past the ceiling as an administrator only. Raises NotExtended: there is nothing (more) to be had.
        """

    def extend_time_limit(self, session_id: str, seconds: int, *, by: str) -> IdleView:
        """Have a session run past its time limit. Raises Refusal where it has none."""


class SessionBook(Protocol):
    """Sessions, running and ended, a page at a time. May block."""

    def find(
        self, question: SessionQuestion, *, count: int, edge: Place | None = None, backwards: bool = False
    ) -> SessionPage:
        """Return `count` sessions at most, beyond `edge`; backwards those before it."""


class PoolBook(Protocol):
    """The machine's devices. May block. `cordon` and `give_back` raise DeviceRefused where they can't be done."""

    def look(self) -> Pool:
        """Return how they are."""

    def cordon(self, uuid: str, *, by: str, reason: str) -> None:
        """Lease a device to nobody new. Raises DriverError, too."""

    def give_back(self, uuid: str, *, by: str, reason: str) -> None:
        """Lease a device again."""


class AuditBook(Protocol):
    """The audit log. May block."""

    def find(self, question: AuditQuestion, *, count: int, below: int | None = None) -> tuple[AuditEntry, ...]:
        """Return the newest rows that are looked for, newest first; with `below` only those of lower numbers."""


class BoardBook(Protocol):
    """What every page tells everybody. May block."""

    def read(self) -> Board:
        """Return what holds now. Raises StoreError."""


class BroadcastBook(Protocol):
    """Messages to everybody. May block."""

    def current(self) -> tuple[Broadcast, ...]:
        """Return those that are shown now, oldest first."""

    def latest(self) -> tuple[Broadcast, ...]:
        """Return the newest, newest first."""

    def send(self, text: str, span: timedelta, *, by: str) -> Broadcast:
        """Tell everybody for a while. Raises InvalidOptions."""

    def withdraw(self, number: int, *, by: str) -> None:
        """Show a message no more. Raises UnknownNotice."""


class MaintenanceBook(Protocol):
    """Whether servers are started here. May block."""

    def current(self) -> Maintenance | None:
        """Return what has begun and not ended."""

    def begin(
        self, reason: str, stop_at: datetime | None, *, by: str, seen: "Maintenance | EllipsisType | None" = ...
    ) -> Maintenance:
        """Start no server from now on, and stop those that run at `stop_at`; `seen` is what was looked at.

        Raises InvalidOptions, ChangedMeanwhile.
        """

    def end(self, *, by: str, seen: "Maintenance | EllipsisType | None" = ...) -> bool:
        """Start servers again; False where there was no maintenance. Raises ChangedMeanwhile."""


class ImageBook(Protocol):
    """The catalogue's images. May block."""

    def look(self) -> "tuple[ListedImage, ...] | None":
        """Return all; None where servers have none. Raises EngineUnavailable."""


class DoctorBook(Protocol):
    """Examines what the site stands on, beside whoever asks: no call waits for it."""

    def latest(self) -> Examination:
        """Return what was found last; the first one is begun."""

    def begin(self) -> None:
        """Examine anew."""


class Stopper(Protocol):
    """Stops servers. May block."""

    def stop(self, view: IdleView, *, by: str, reason: str) -> None:
        """Have the hub stop a session's server. Raises HubError, UnknownSession."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What the API tells of, once the service has it."""

    statements: Statements
    limits: Limits
    prices: Prices
    clock: Callable[[], datetime]
    timezone: str
    account_id: str
    currency: str = "USD"
    flavors: Mapping[str, Flavor] = field(default_factory=dict)  # the menu, by slug
    idle: IdleBook | None = None  # None while it can't be asked yet
    sessions: SessionBook | None = None  # as above
    pool: PoolBook | None = None  # None while it can't be asked yet, like those below
    audit: AuditBook | None = None
    stopper: Stopper | None = None
    board: BoardBook | None = None
    broadcasts: BroadcastBook | None = None
    maintenance: MaintenanceBook | None = None
    images: ImageBook | None = None
    doctor: DoctorBook | None = None
    policies: PolicyDesk | None = None
    credits: CreditDesk | None = None
    is_simulated: bool = False  # the driver, of which every page tells
    is_local: bool = False  # servers are processes of this account
    metrics: Callable[[], bytes] | None = None  # for Prometheus, in its text format; may block
    find_due: Callable[[], Sequence[PlannedStop]] = tuple  # idle servers that are to be stopped now; may block
