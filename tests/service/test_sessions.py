"""The API of running servers: who may read, tell and extend what; what is not a report is refused."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from nbgpu.core.activity import Report
from nbgpu.core.authorize import Cause
from nbgpu.core.culling import Extension
from nbgpu.core.errors import InvalidOptions
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.idle_policy import IdlePolicy
from nbgpu.core.leases import ServerRef
from nbgpu.core.stops import Stop
from nbgpu.service.api import api_routes
from nbgpu.service.books import Books
from nbgpu.service.callers import to_caller
from nbgpu.service.operations import parse_body
from nbgpu.service.recent import Recent
from nbgpu.service.session_bodies import ExtensionBody, ReportBody
from service.idle_book import BUSY, NOW, SECONDS, FakeIdleBook, FakeSessionBook, Prices, make_view
from support.site import make_flavor

SERVICE = "access:services!service=nbgpu"
TOKENS = {
    "ann": ("ann", [SERVICE, "access:servers!user=ann"]),
    "narrow": ("ann", [SERVICE]),
    "server": ("ann", [SERVICE, "access:servers!server=ann/", "users:activity!user=ann"]),
    "named": ("ann", [SERVICE, "access:servers!server=ann/gpu/2", "users:activity!user=ann"]),
    "bob": ("bob", [SERVICE, "access:servers!user=bob"]),
    "friend": ("bob", [SERVICE, "access:servers!server=ann/"]),
    "root": ("root", ["access:services", "access:servers", "admin:users"]),
    "operator": ("eve", [SERVICE, "custom:nbgpu:operate", "access:servers!user=eve"]),
    "reader": ("joe", [SERVICE, "custom:nbgpu:usage:read", "access:servers!user=joe"]),
    "stranger": ("sue", ["access:servers!user=sue"]),
}
REPORT = {"kernels": 2, "kernels_busy": 1, "terminals": 1, "terminal_jobs": 0, "person_s_ago": 12.5, "sockets": 1}
CPU = make_flavor("cpu", FlavorKind.CPU)


class Hub:
    """The hub's word on who asks."""

    async def get_user(self, handler, *, sync):
        name = handler.request.headers.get("Authorization", "").removeprefix("token ")
        if name not in TOKENS:
            return None
        user, scopes = TOKENS[name]
        return {"name": user, "kind": "user", "groups": [], "scopes": scopes}


class Money:
    """Costs that are known, no budgets, no quotas; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = []

    def costs(self, session_ids):
        self.asked.append(tuple(session_ids))
        return dict.fromkeys(session_ids, 40_000)

    def purses(self, people):
        self.asked.append(tuple(sorted(people)))
        return dict.fromkeys(people, ((), ()))


@pytest.fixture
def idle():
    """The sessions of ann's two servers, one of bob's, and one that ended."""
    return FakeIdleBook(
        make_view("a-1"),
        make_view("a-2", ServerRef("ann", "gpu/2"), flavor="gone", verdict=BUSY),
        make_view("b-1", ServerRef("bob"), policy=None, verdict=None),
        make_view("old", ended_at=NOW - timedelta(minutes=5), stop=Stop(SECONDS - 300, Cause.IDLE)),
    )


@pytest.fixture
def money():
    return Money()


@asynccontextmanager
async def serving(idle, money):
    """Serve the API; give what asks it with a token."""
    books = Books(
        statements=SimpleNamespace(knows=lambda name: True),
        limits=money,
        prices=Prices(),
        clock=lambda: NOW,
        timezone="UTC",
        account_id="nbgpu",
        flavors={"cpu": CPU},
        idle=idle,
        sessions=FakeSessionBook(idle),
    )
    server = HTTPServer(Application(api_routes("/", lambda: books, Hub())))
    socket, port = bind_unused_port()
    server.add_sockets([socket])
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1/", trust_env=False, timeout=30) as client:

        async def ask(path, who, body=None, **parameters):
            method = "GET" if body is None else "POST"
            content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            headers = {"Authorization": f"token {who}"}
            return await client.request(method, path, content=content, params=parameters, headers=headers)

        yield ask
    server.stop()
    await server.close_all_connections()


@pytest.mark.parametrize(
    ("who", "seen"),
    [
        ("ann", {"a-1", "a-2"}),
        ("narrow", {"a-1", "a-2"}),
        ("server", {"a-1"}),
        ("named", {"a-2"}),
        ("bob", {"b-1"}),
        ("friend", {"b-1"}),
        ("root", {"a-1", "a-2", "b-1"}),
        ("operator", {"a-1", "a-2", "b-1"}),
        ("reader", {"a-1", "a-2", "b-1"}),
    ],
)
async def test_each_sees_what_is_theirs(idle, money, who, seen):
    async with serving(idle, money) as ask:
        listed = (await ask("sessions", who)).json()["sessions"]
        statuses = {each: (await ask(f"sessions/{each}", who)).status_code for each in ("a-1", "a-2", "b-1")}
    assert {each["session_id"] for each in listed} == seen
    assert statuses == {each: 200 if each in seen else 403 for each in statuses}


async def test_an_administrator_may_ask_for_one_user(idle, money):
    async with serving(idle, money) as ask:
        found = (await ask("sessions", "root", user="bob")).json()["sessions"]
        refused = await ask("sessions", "ann", user="bob")
    assert [each["session_id"] for each in found] == ["b-1"]
    assert refused.status_code == 403


async def test_a_servers_token_reads_no_usage_of_its_person(idle, money):
    async with serving(idle, money) as ask:
        answers = [await ask(path, "server") for path in ("usage", "budgets", "quotas")]
    assert [each.status_code for each in answers] == [403] * 3
    assert "A server's own token reads of its own session only" in answers[0].json()["detail"]


async def test_a_status_says_what_holds_and_why(idle, money):
    async with serving(idle, money) as ask:
        found = (await ask("sessions/a-1", "ann")).json()
        gone = (await ask("sessions/a-2", "ann")).json()
        without = (await ask("sessions/b-1", "bob")).json()
        ended = (await ask("sessions/old", "ann")).json()
    assert found["flavor"] == {"slug": "cpu", "display_name": CPU.display_name, "kind": "cpu"}
    assert (found["user"], found["server"], found["cost_micro"], found["currency"]) == ("ann", "", 40_000, "USD")
    assert (found["budgets"], found["quotas"], found["stop"], found["ended_at"]) == ([], [], None, None)
    rule = found["idle"]
    assert (rule["verdict"], rule["limit_s"], rule["cause"]) == ("idle", 3600, "idle")
    assert (rule["since"], rule["would_stop_at"]) == ("2026-03-10T11:10:00+00:00", "2026-03-10T12:10:00+00:00")
    assert (rule["extend_s"], rule["extendable_s"], rule["extended_until"]) == (3600, 4 * 3600, None)
    assert rule["reasons"][1] == {
        "signal": "cpu",
        "state": "quiet",
        "at": "2026-03-10T11:10:00+00:00",
        "value": 1.25,
        "threshold": 5.0,
        "text": "The CPU does next to nothing: 1.2 %; from 5 % on it would count.",
    }
    assert (gone["flavor"]["display_name"], gone["flavor"]["kind"]) == ("gone", None)
    assert (gone["idle"]["verdict"], gone["idle"]["since"]) == ("active", None)
    assert without["idle"] is None
    assert ended["ended_at"] == "2026-03-10T11:55:00+00:00"
    assert "it was idle since 2026-03-10 11:10 UTC, and may be so for 1 h" in ended["end"]
    assert ended["idle"]["extend_s"] == 0


@pytest.mark.parametrize(
    ("who", "session", "status"),
    [
        ("server", "a-1", 200),
        ("named", "a-2", 200),
        ("server", "a-2", 403),
        ("named", "a-1", 403),
        ("ann", "a-1", 403),
        ("friend", "a-1", 403),
        ("root", "a-1", 403),
        ("server", "old", 404),
        ("server", "never", 404),
        ("stranger", "a-1", 403),
        ("nobody", "a-1", 401),
    ],
)
async def test_a_server_alone_tells_of_itself(idle, money, who, session, status):
    async with serving(idle, money) as ask:
        answer = await ask(f"sessions/{session}/report", who, REPORT)
    assert answer.status_code == status
    taken = Report(kernels=2, kernels_busy=1, terminals=1, person_ago=12.5, sockets=1)
    assert idle.reports == ([(session, taken)] if status == 200 else [])
    if status == 200:
        assert answer.json()["session_id"] == session
        assert {"budgets", "quotas", "idle"} <= set(answer.json())
    else:
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "kernels: Field required"),
        (b"[]", "The body: Input should be an object"),
        (b"\xff", "The body: Invalid JSON"),
        ({}, "kernels: Field required"),
        (REPORT | {"kernels": -1}, "kernels: Input should be greater than or equal to 0"),
        (REPORT | {"kernels": 2.5}, "kernels: Input should be a valid integer"),
        (REPORT | {"kernels": True}, "kernels: Input should be a valid integer"),
        (REPORT | {"terminals": "1"}, "terminals: Input should be a valid integer"),
        (REPORT | {"sockets": 10**9}, "sockets: Input should be less than or equal to 100000"),
        (REPORT | {"person_s_ago": "now"}, "person_s_ago: Input should be a valid number"),
        (json.dumps(REPORT).replace("12.5", "NaN").encode(), "person_s_ago: Input should be"),
        (REPORT | {"user": "bob"}, "user: Extra inputs are not permitted"),
        (b"[" * 60_000, "The body: Invalid JSON"),
    ],
)
async def test_what_is_no_report_is_refused_in_words(idle, money, body, message):
    async with serving(idle, money) as ask:
        answer = await ask("sessions/a-1/report", "server", body)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert message in answer.json()["detail"]
    assert "kernels_busy, terminals" in answer.json()["detail"]
    assert idle.reports == []


async def test_somebody_who_never_acted_is_not_somebody_who_just_did(idle, money):
    async with serving(idle, money) as ask:
        answer = await ask("sessions/a-1/report", "server", REPORT | {"person_s_ago": None})
    assert answer.status_code == 200
    assert idle.reports[0][1].person_ago is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text() | st.sampled_from(sorted(REPORT)), each),
        max_leaves=9,
    )
)
def test_whatever_is_sent_is_a_report_or_refused(value):
    for model in (ReportBody, ExtensionBody):
        try:
            parse_body(model, json.dumps(value).encode())
        except InvalidOptions as error:
            assert len(str(error)) < 400  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize(
    ("who", "body", "extension"),
    [
        ("ann", {}, ("a-1", 3600, "ann", False)),
        ("ann", b"", ("a-1", 3600, "ann", False)),
        ("server", {"seconds": 600}, ("a-1", 600, "ann", False)),
        ("root", {"seconds": 36000}, ("a-1", 36000, "root", True)),
        ("operator", {}, ("a-1", 3600, "eve", True)),
    ],
)
async def test_a_server_is_kept_by_itself_by_its_user_and_by_administrators(idle, money, who, body, extension):
    async with serving(idle, money) as ask:
        answer = await ask("sessions/a-1/extend", who, body)
    assert answer.status_code == 200
    assert idle.extensions == [extension]
    assert answer.json()["idle"]["extended_until"] is not None


@pytest.mark.parametrize(
    ("who", "session", "body", "status"),
    [
        ("bob", "a-1", {}, 403),
        ("named", "a-1", {}, 403),
        ("reader", "a-1", {}, 403),
        ("ann", "old", {}, 404),
        ("ann", "a-1", {"seconds": 5 * 3600}, 409),
        ("ann", "a-1", {"seconds": 0}, 400),
        ("ann", "a-1", {"seconds": "3600"}, 400),
        ("ann", "a-1", {"hours": 1}, 400),
    ],
)
async def test_nobody_else_and_no_longer(idle, money, who, session, body, status):
    async with serving(idle, money) as ask:
        answer = await ask(f"sessions/{session}/extend", who, body)
    assert (answer.status_code, idle.extensions) == (status, [])
    assert answer.json()["detail"].endswith((".", "…"))


async def test_at_the_ceiling_a_person_is_told_and_an_administrator_goes_on(idle, money):
    idle.views["a-1"] = replace(
        idle.views["a-1"], extension=Extension(until=SECONDS + 60, used=4 * 3600, asked_at=SECONDS)
    )
    async with serving(idle, money) as ask:
        refused, granted = await ask("sessions/a-1/extend", "ann", {}), await ask("sessions/a-1/extend", "root", {})
    assert (refused.status_code, granted.status_code) == (409, 200)
    assert "Ask an administrator" in refused.json()["detail"]


async def test_where_one_click_gives_nothing_nobody_but_an_administrator_extends(idle, money):
    idle.views["a-1"] = replace(idle.views["a-1"], policy=IdlePolicy(idle_limit=3600, extend=0))
    async with serving(idle, money) as ask:
        refused = await ask("sessions/a-1/extend", "ann", {"seconds": 600})
        granted = await ask("sessions/a-1/extend", "root", {"seconds": 600})
    assert (refused.status_code, granted.status_code) == (409, 200)
    assert "Nobody extends servers here themselves" in refused.json()["detail"]
    assert granted.json()["idle"]["extend_s"] == 0


async def test_thousands_of_reports_read_all_sessions_and_their_money_once(idle, money):
    async with serving(idle, money) as ask:
        for _ in range(5):
            await ask("sessions/a-1/report", "server", REPORT)
    assert money.asked == [("a-1", "a-2", "b-1"), (("ann", ("ml",)), ("bob", ("ml",)))]
    assert len(idle.reports) == 5


async def test_sessions_are_some_seconds_old_and_a_new_one_is_known(idle, money):
    async with serving(idle, money) as ask:
        await ask("sessions/a-1/report", "server", REPORT)
        idle.views["a-1"] = replace(
            idle.views["a-1"], extension=Extension(until=SECONDS + 60, used=60, asked_at=SECONDS)
        )
        idle.views["new"] = replace(idle.views["a-2"], session_id="new")
        before = (await ask("sessions/a-1/report", "server", REPORT)).json()
        newer = await ask("sessions/new/report", "named", REPORT)
    assert before["idle"]["extended_until"] is None, "sessions are some seconds old"
    assert newer.status_code == 200, "but one that has just begun is known"


def test_what_is_old_is_read_together_and_what_nobody_wants_is_forgotten():
    now, reads = [0.0], []

    def read(keys):
        reads.append(sorted(keys))
        return {key: key.upper() for key in keys if key != "gone"}

    kept = Recent(60, clock=lambda: now[0])
    for key in ("a", "b", "gone"):
        kept.get([key], read)
    now[0] = 61
    assert kept.get(["a"], read) == {"a": "A"}
    assert kept.get(["b"], read) == {"b": "B"}
    now[0] = 150
    assert kept.get(["a"], read) == {"a": "A"}
    now[0] = 1000
    kept.get(["c"], read)
    assert reads == [["a"], ["b"], ["gone"], ["a", "b"], ["a", "b"], ["c"]]


def test_while_one_reads_others_have_what_was_there():
    now, kept = [0.0], Recent(60, clock=lambda: now[0])
    kept.get(["a"], lambda keys: {"a": 1})
    now[0] = 61
    entered, go_on = threading.Event(), threading.Event()

    def read(keys):
        entered.set()
        assert go_on.wait(30)
        return dict.fromkeys(keys, 2)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(kept.get, ["a"], read)
        assert entered.wait(30)
        assert kept.get(["a"], read) == {"a": 1}
        go_on.set()
        assert first.result() == {"a": 2}
    assert kept.get(["a"], read) == {"a": 2}


@pytest.mark.parametrize(
    ("token", "server"), [("server", "ann"), ("named", "ann/gpu/2"), ("ann", None), ("root", None), ("friend", None)]
)
def test_a_token_for_one_server_is_that_servers(token, server):
    name, scopes = TOKENS[token]
    caller = to_caller({"name": name, "kind": "user", "scopes": scopes})
    assert (str(caller.server) if caller.server is not None else None) == server
    assert caller.is_user == (server is None)
