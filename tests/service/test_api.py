"""The REST API over a real database: what is too much is refused at once, and few statements are made at one time."""

import asyncio
import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from nbgpu.core.authorize import Cause, Policies
from nbgpu.core.budgets import Budget
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.leases import ServerRef
from nbgpu.core.menu import Choice
from nbgpu.core.quotas import QuotaPolicy, Scope, Who
from nbgpu.core.stops import PlannedStop, Stop
from nbgpu.core.windows import Window, WindowKind
from nbgpu.service.api import api_routes
from nbgpu.service.books import Books
from nbgpu.service.turns import Turns
from nbgpu.store import SqlLeaseStore, open_database
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.prices import SqlPrices
from nbgpu.store.statements import SqlStatements
from support.site import make_flavor

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
SCOPES = {
    "ann": ["access:services"],
    "new": ["access:services"],
    "root": ["access:services", "admin:users", "custom:nbgpu:usage:read"],
    "culler": ["access:services!service=nbgpu", "custom:nbgpu:cull"],
    "prometheus": ["access:services!service=nbgpu", "read:metrics"],
    "lost": ["custom:nbgpu:cull"],
}
MONTH = Window(kind=WindowKind.MONTH)
POLICIES = Policies(
    quotas=(QuotaPolicy(who=Who(Scope.EVERYONE), servers=3),),
    budgets=(Budget(name="ml", who=Who(Scope.GROUP, "ml"), amount=5_000_000, window=MONTH),),
)


class Hub:
    """The hub's word on who asks: a token is its owner's name."""

    async def get_user(self, handler, *, sync):
        name = handler.request.headers.get("Authorization", "").removeprefix("token ")
        return {"name": name, "kind": "user", "groups": [], "scopes": SCOPES[name]} if name in SCOPES else None


class Held:
    """Statements that are not done before they are let go; counts how many are made at one time."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.entered = threading.Semaphore(0)
        self.now = self.most = 0
        self._lock = threading.Lock()

    def knows(self, username):
        return True

    def read(self, question, now):
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.entered.release()
        assert self.let_go.wait(30)
        with self._lock:
            self.now -= 1
        return ()


@pytest.fixture
def books(tmp_path):
    """The books of a site where ann, of the group ml, has run a server."""
    engine = open_database(f"sqlite:///{tmp_path / 'nbgpu.sqlite'}")
    leases = SqlLeaseStore(engine, lambda: NOW, POLICIES)
    lease = leases.acquire(
        ServerRef("ann"), Choice(make_flavor("cpu", FlavorKind.CPU), "base"), "sha256:1", (), groups=["ml"]
    )
    leases.activate(lease.session_id, NOW - timedelta(hours=1))
    yield Books(
        statements=SqlStatements(engine),
        limits=SqlLimits(engine, POLICIES, lambda: NOW),
        prices=SqlPrices(engine, lambda: NOW),
        clock=lambda: NOW,
        timezone="UTC",
        account_id="nbgpu",
    )
    engine.dispose()


@asynccontextmanager
async def serving(books, turns=None):
    """Serve the API; give what asks it as somebody."""
    server = HTTPServer(Application(api_routes("/", lambda: books, Hub(), turns=turns)))
    socket, port = bind_unused_port()
    server.add_sockets([socket])
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1/", trust_env=False, timeout=30) as client:

        async def ask(path: str, who: str = "root", **parameters: str) -> httpx.Response:
            return await client.get(path, params=parameters, headers={"Authorization": f"token {who}"})

        yield ask
    server.stop()
    await server.close_all_connections()


async def test_thousands_of_years_by_day_are_refused(books):
    async with serving(books) as ask:
        answer = await ask("usage", "ann", **{"by": "day", "from": "1970-01-01", "to": "9998-12-31"})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert "is 2932532 days; a statement has at most 400" in answer.json()["detail"]


async def test_an_administrator_sees_the_pools_of_a_users_newest_session(books):
    async with serving(books) as ask:
        found = (await ask("budgets", user="ann")).json()["budgets"]
        own = (await ask("budgets", "ann")).json()["budgets"]
    assert [(each["budget"], each["owner"]) for each in found] == [("ml", "ml")]
    assert own == [], "the hub says that ann has left the group"


@pytest.mark.parametrize("path", ["usage", "budgets", "quotas"])
async def test_a_name_that_nobody_ever_had_is_not_found(books, path):
    async with serving(books) as ask:
        unknown, known = await ask(path, user="amn"), await ask(path, user="ann")
        themselves = await ask(path, "new")
    assert (unknown.status_code, unknown.json()["title"], known.status_code) == (404, "Not Found", 200)
    assert "Nobody of the name “amn” has ever had a server." in unknown.json()["detail"]
    assert themselves.status_code == 200, "whoever has a token is somebody"


async def test_without_a_token_it_says_what_is_needed(books):
    async with serving(books) as ask:
        answer = await ask("usage", "nobody")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "A token of the hub is needed" in answer.json()["detail"]


def due_now() -> tuple[PlannedStop, ...]:
    at = int(NOW.timestamp())
    return (
        PlannedStop("s-1", ServerRef("ann"), Stop(at, Cause.IDLE)),
        PlannedStop("s-2", ServerRef("bob", "second"), Stop(at - 90, Cause.GPU_IDLE)),
    )


async def test_the_culler_is_told_which_idle_servers_are_due(books):
    async with serving(replace(books, find_due=due_now)) as ask:
        told = (await ask("idle/due", "culler")).json()
    async with serving(books) as ask:
        nothing = (await ask("idle/due", "culler")).json()
    assert told["due"] == [
        {"session_id": "s-1", "user": "ann", "server": "", "stop_at": "2026-03-10T12:00:00+00:00", "cause": "idle"},
        {
            "session_id": "s-2",
            "user": "bob",
            "server": "second",
            "stop_at": "2026-03-10T11:58:30+00:00",
            "cause": "gpu_idle",
        },
    ]
    assert nothing == {"due": []}


@pytest.mark.parametrize(("who", "status"), [("ann", 403), ("root", 403), ("lost", 403), ("stranger", 401)])
async def test_nobody_else_is_told_who_is_due(books, who, status):
    async with serving(replace(books, find_due=due_now)) as ask:
        answer = await ask("idle/due", who)
    assert (answer.status_code, "s-1" in answer.text) == (status, False)


def hold(books) -> tuple[Held, Books]:
    held = Held()
    parts = {name: getattr(books, name) for name in Books.__slots__} | {"statements": held}
    return held, Books(**parts)


async def test_few_statements_are_made_at_one_time_and_the_rest_wait(books):
    held, books = hold(books)
    async with serving(books, Turns(2, patience=30)) as ask:
        asked = [asyncio.create_task(ask("usage", format=kind)) for kind in ("json", "csv") * 3]
        for _ in range(2):
            assert await asyncio.to_thread(held.entered.acquire, timeout=30)
        assert (await ask("prices")).status_code == 200, "other answers do not wait"
        held.let_go.set()
        answers = await asyncio.gather(*asked)
    assert [answer.status_code for answer in answers] == [200] * 6
    assert held.most == 2


async def test_whoever_waits_too_long_is_told_to_come_again(books):
    held, books = hold(books)
    async with serving(books, Turns(1, patience=0.05)) as ask:
        first = asyncio.create_task(ask("usage"))
        assert await asyncio.to_thread(held.entered.acquire, timeout=30)
        second = await ask("usage")
        held.let_go.set()
        assert (await first).status_code == 200
        assert (await ask("usage")).status_code == 200
    assert (second.status_code, second.headers["retry-after"]) == (503, "10")
    assert "Many statements are being made" in second.json()["detail"]


@pytest.mark.parametrize(("who", "status"), [("prometheus", 200), ("root", 200), ("ann", 403), ("culler", 403)])
async def test_metrics_are_for_who_may_read_the_hubs_own(books, who, status):
    async with serving(replace(books, metrics=lambda: b"nbgpu_sessions 1\n")) as ask:
        answer = await ask("../../metrics", who)
    assert answer.status_code == status
    if status == 200:
        assert (answer.text, answer.headers["content-type"].partition(";")[0]) == ("nbgpu_sessions 1\n", "text/plain")


async def test_without_metrics_yet_it_is_said(books):
    async with serving(books) as ask:
        assert (await ask("../../metrics")).status_code == 503
