"""A site with sessions that run and that ended, over a real database: what the page of sessions is shown."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nbgpu.core.errors import HubUnavailable
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.idle_policy import IdleRule, IdleSite
from nbgpu.core.quotas import Scope, Who
from nbgpu.service.books import Books
from nbgpu.store import SqlAuditLog, open_database
from nbgpu.store.idle import SqlIdle
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.limits import Policies
from nbgpu.store.schema import SessionRow
from nbgpu.store.session_list import SqlSessionList
from nbgpu.store.work import unit_of_work
from nbgpu.telemetry.server_stopper import ServerStopper
from service.idle_book import Prices
from service.pool_site import NOW
from support.site import make_flavor

RULES = IdleSite(rules=(IdleRule(who=Who(Scope.EVERYONE), changes={"idle_limit": 1800, "extend": 3600}),))


@dataclass
class StoppingHub:
    """A hub that stops servers, and does not answer for some."""

    silent: set[str] = field(default_factory=set)  # user names
    stopped: list[str] = field(default_factory=list)

    def find(self, server):
        return None if server.username == "gone" else _Server()

    def stop(self, server):
        if server.username in self.silent:
            raise HubUnavailable("The hub did not answer.")
        self.stopped.append(server.username)


class _Server:
    session_id = None


class SessionsSite:
    """Sessions of user-0, user-1 …; every third has ended."""

    def __init__(self, folder, count: int) -> None:
        self.engine = open_database(f"sqlite:///{folder / 'nbgpu.sqlite'}")
        self.hub, self.audit, self.notes = StoppingHub(), SqlAuditLog(self.engine, lambda: NOW), []
        for number in range(count):
            ended = NOW - timedelta(minutes=number) if number % 3 == 2 else None
            self.add(f"user-{number}", NOW - timedelta(hours=number + 1), ended)

    def add(self, user: str, began: datetime, ended: datetime | None = None, **more) -> None:
        """Add a session."""
        values = {"flavor": "cpu", "server": "", "time_limit": 36000} | more
        with unit_of_work(self.engine) as db:
            row = SessionRow(session_id=f"s-{user}", username=user, servername=values.pop("server"), **values)
            row.image, row.image_id, row.price_per_hour = "base", "i", 1_000_000
            row.state, row.created_at, row.active_at = "active", began, began
            row.released_at, row.ended_at, row.release_reason = ended, ended, "stopped" if ended else None
            row.user_groups = ["ml"] if user.endswith("0") else []
            db.add(row)

    def clock(self) -> datetime:
        """Return the time."""
        return NOW

    def note_reason(self, session_id, reason):
        """Note why a session is about to end."""
        self.notes.append((session_id, reason))

    def books(self, **more) -> Books:
        """Return what the pages tell of."""
        idle = SqlIdle(self.engine, RULES, lambda: NOW)
        parts = {
            "statements": None,
            "limits": SqlLimits(self.engine, Policies(), lambda: NOW),
            "prices": Prices(),
            "clock": lambda: NOW,
            "timezone": "UTC",
            "account_id": "nbgpu",
            "flavors": {"cpu": make_flavor("cpu", FlavorKind.CPU)},
            "idle": idle,
            "sessions": SqlSessionList(self.engine, idle, lambda: NOW),
            "audit": self.audit,
            "stopper": ServerStopper(self.hub, self, self.audit),
        }
        return Books(**(parts | more))
