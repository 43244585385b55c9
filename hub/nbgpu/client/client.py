"""What the service's API offers, as methods that return the answers' own models."""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

from nbgpu.client.connection import Connection
from nbgpu.service.audit_answers import AuditAnswer, AuditRowAnswer
from nbgpu.service.money_answers import (
    BudgetAnswer,
    BudgetsAnswer,
    PriceAnswer,
    PricesAnswer,
    QuotaAnswer,
    QuotasAnswer,
    StatementAnswer,
)
from nbgpu.service.pool_answers import DeviceAnswer, PoolAnswer
from nbgpu.service.session_answers import ListedSession, SessionAnswer, SessionsAnswer

TIMEOUT = 30.0  # seconds
P = TypeVar("P", AuditAnswer, SessionsAnswer)


class Client:
    """A service, asked with one token. Each call blocks and raises ServiceRefused or ServiceUnavailable.

    `url` is the service's own address, like "https://hub.example.org/services/nbgpu".
    """

    def __init__(self, url: str, token: str, *, timeout: float = TIMEOUT, direct: bool = False) -> None:
        """`timeout` bounds each call, in seconds; `direct` passes by proxies that the environment names."""
        self._service = Connection(url, token, timeout=timeout, direct=direct)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._service.close()

    def sessions(
        self,
        *,
        state: str = "running",
        user: str | None = None,
        group: str | None = None,
        flavor: str | None = None,
        search: str | None = None,
        first: str | None = None,
        last: str | None = None,
        sort: str | None = None,
    ) -> Iterator[ListedSession]:
        """Yield sessions that are running, ended or all, a page at a time; `first` and `last` are days."""
        wanted = {"state": state, "user": user, "group": group, "flavor": flavor, "q": search, "sort": sort}
        wanted |= {"from": first, "to": last}
        for found in _follow(
            lambda cursor: self._service.get(SessionsAnswer, "sessions", {**wanted, "cursor": cursor})
        ):
            yield from found.sessions

    def session(self, session_id: str) -> SessionAnswer:
        """Return one, running or ended."""
        return self._service.get(SessionAnswer, f"sessions/{_part(session_id)}")

    def extend(self, session_id: str, seconds: int | None = None) -> SessionAnswer:
        """Have one not stopped for being idle for longer; without seconds for as long as one click gives."""
        body = {} if seconds is None else {"seconds": seconds}
        return self._service.post(SessionAnswer, f"sessions/{_part(session_id)}/extend", body)

    def extend_time_limit(self, session_id: str, seconds: int) -> SessionAnswer:
        """Let one run so much longer than its time limit."""
        return self._service.post(SessionAnswer, f"sessions/{_part(session_id)}/limit", {"seconds": seconds})

    def stop(self, session_id: str, reason: str) -> None:
        """Have one stopped; its person reads the reason."""
        self._service.tell(f"sessions/{_part(session_id)}/stop", {"reason": reason})

    def usage(
        self,
        by: str = "user",
        *,
        month: str | None = None,
        first: str | None = None,
        last: str | None = None,
        timezone: str | None = None,
        user: str | None = None,
        group: str | None = None,
    ) -> StatementAnswer:
        """Return a statement of a month like "2026-11", or of days like "2026-11-30"; by default of this month."""
        query = {"by": by, "month": month, "from": first, "to": last}
        query |= {"timezone": timezone, "user": user, "group": group}
        return self._service.get(StatementAnswer, "usage", query)

    def budgets(self, user: str | None = None) -> list[BudgetAnswer]:
        """Return one's own, or all for who reads all."""
        return self._service.get(BudgetsAnswer, "budgets", {"user": user}).budgets

    def quotas(self, user: str | None = None) -> list[QuotaAnswer]:
        """Return a person's; without a name one's own."""
        return self._service.get(QuotasAnswer, "quotas", {"user": user}).quotas

    def prices(self) -> list[PriceAnswer]:
        """Return what holds now."""
        return self._service.get(PricesAnswer, "prices").prices

    def pool(self) -> PoolAnswer:
        """Return the machine's devices."""
        return self._service.get(PoolAnswer, "pool")

    def cordon(self, uuid: str, reason: str) -> DeviceAnswer:
        """Lease a device to nobody new."""
        return self._service.post(DeviceAnswer, f"pool/{_part(uuid)}/cordon", {"reason": reason})

    def give_back(self, uuid: str, reason: str) -> DeviceAnswer:
        """Lease a device again."""
        return self._service.post(DeviceAnswer, f"pool/{_part(uuid)}/return", {"reason": reason})

    def audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        subject: str | None = None,
        first: str | None = None,
        last: str | None = None,
    ) -> Iterator[AuditRowAnswer]:
        """Yield the log's rows, newest first, a page at a time."""
        wanted = {"actor": actor, "action": action, "subject": subject, "from": first, "to": last}
        for found in _follow(lambda cursor: self._service.get(AuditAnswer, "audit", {**wanted, "cursor": cursor})):
            yield from found.rows


def _follow(page: Callable[[str | None], P]) -> Iterator[P]:
    found = page(None)
    yield found
    while found.next is not None:
        found = page(found.next)
        yield found


def _part(text: str) -> str:
    return quote(text, safe="")
