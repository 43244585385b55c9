"""The API of messages to everybody, maintenance, images, doctor and alerts, over a real database."""

from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace

import httpx
import pytest
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from nbgpu.service.api import api_routes
from nbgpu.store import SqlAuditLog, open_database
from nbgpu.store.broadcasts import SqlBroadcasts
from nbgpu.store.maintenance import SqlMaintenance
from service.idle_book import FakeIdleBook, Prices, make_view
from service.pool_site import NOW
from service.test_sessions import Hub, Money
from service.test_site_pages import IMAGE, Images, alert, doctor
from support.site import until


@pytest.fixture
def engine(tmp_path):
    found = open_database(f"sqlite:///{tmp_path / 'nbgpu.sqlite'}")
    yield found
    found.dispose()


@asynccontextmanager
async def serving(engine, **more):
    """Serve the API; give what asks it with a token."""
    from nbgpu.service.books import Books

    limits = Money()
    limits.alerts = lambda: (alert(80, forecast=NOW),)
    books = Books(
        statements=None,
        limits=limits,
        prices=Prices(),
        clock=lambda: NOW,
        timezone="UTC",
        account_id="nbgpu",
        idle=FakeIdleBook(make_view("a-1"), make_view("old", ended_at=NOW)),
        broadcasts=SqlBroadcasts(engine, lambda: NOW),
        maintenance=SqlMaintenance(engine, lambda: NOW),
        **more,
    )
    server = HTTPServer(Application(api_routes("/", lambda: books, Hub())))
    socket, port = bind_unused_port()
    server.add_sockets([socket])
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1/", trust_env=False, timeout=30) as client:

        async def ask(method, path, who="operator", match=None, **body):
            headers = {"Authorization": f"token {who}"} | ({"If-Match": match} if match else {})
            return await client.request(method, path, json=body or None, headers=headers)

        yield ask
    server.stop()
    await server.close_all_connections()


async def test_a_message_reaches_each_session_that_runs(engine):
    async with serving(engine) as ask:
        sent = await ask("POST", "broadcasts", text="Lunch\nat <b>12</b>", seconds=3600)
        assert (sent.status_code, sent.json()["text"], sent.json()["author"]) == (201, "Lunch at <b>12</b>", "eve")
        number = sent.json()["number"]
        assert [each["number"] for each in (await ask("GET", "broadcasts", "ann")).json()["broadcasts"]] == [number]
        session = (await ask("GET", "sessions/a-1", "ann")).json()
        assert session["messages"] == [
            {
                "number": number,
                "text": "Lunch at <b>12</b>",
                "sent_at": NOW.isoformat(),
                "until": (NOW + timedelta(hours=1)).isoformat(),
            }
        ]
        assert (await ask("GET", "sessions/old", "ann")).json()["messages"] == []
        assert (await ask("DELETE", f"broadcasts/{number}")).status_code == 204
        assert (await ask("DELETE", f"broadcasts/{number}")).status_code == 404
        assert (await ask("GET", "broadcasts", "ann")).json() == {"broadcasts": []}


async def test_maintenance_begins_changes_and_ends(engine):
    stop_at = NOW + timedelta(hours=1)
    async with serving(engine) as ask:
        assert (await ask("GET", "maintenance", "ann")).json()["is_on"] is False
        begun = await ask("PUT", "maintenance", reason="driver", stop_at=stop_at.isoformat())
        assert (begun.json()["is_on"], begun.json()["stop_at"]) == (True, stop_at.isoformat())
        etag = (await ask("GET", "maintenance")).headers["ETag"]
        for method, body in (("PUT", {"reason": "x"}), ("DELETE", {})):
            assert (await ask(method, "maintenance", **body)).status_code == 428
            assert (await ask(method, "maintenance", match='"old"', **body)).status_code == 412
        assert (await ask("PUT", "maintenance", match=etag, reason="driver")).json()["stop_at"] is None
        assert (await ask("DELETE", "maintenance", match=etag)).status_code == 412
        assert (await ask("GET", "maintenance", "ann")).json()["reason"] == "driver"
        assert [(await ask("DELETE", "maintenance", match=each)).status_code for each in ("*", None)] == [204, 204]
        assert (await ask("GET", "maintenance", "ann")).json()["is_on"] is False
    actions = [each.action for each in SqlAuditLog(engine).latest()]
    assert actions == ["maintenance.end", "maintenance.begin", "maintenance.begin"]


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("POST", "broadcasts", {"text": "x"}, "seconds"),
        ("POST", "broadcasts", {"text": "x", "seconds": 59}, "greater than or equal to 60"),
        ("POST", "broadcasts", {"text": "x" * 501, "seconds": 60}, "501 characters"),
        ("POST", "broadcasts", {"text": "x", "seconds": 60, "more": 1}, "more"),
        ("PUT", "maintenance", {"reason": " "}, "Say why"),
        ("PUT", "maintenance", {"reason": "x", "stop_at": "2026-03-10T13:00:00"}, "timezone"),
        ("PUT", "maintenance", {"reason": "x", "stop_at": 1773144000}, "ISO 8601"),
        ("PUT", "maintenance", {"reason": "x", "stop_at": "1773144000"}, "ISO 8601"),
        ("PUT", "maintenance", {"reason": "x", "stop_at": NOW.isoformat()}, "5 minutes at least"),
    ],
)
async def test_what_makes_no_sense_is_said_and_not_done(engine, method, path, body, words):
    async with serving(engine) as ask:
        answer = await ask(method, path, **body)
        assert (answer.status_code, words in answer.json()["detail"]) == (400, True), answer.text
    assert SqlAuditLog(engine).latest() == ()


async def test_images_findings_and_alerts_are_told(engine):
    found = doctor('[{"level": "warn", "subject": "disk", "found": "1 GiB", "advice": "Free some."}]')
    async with serving(engine, images=Images((IMAGE,)), doctor=found) as ask:
        (image,) = (await ask("GET", "images")).json()["images"]
        assert (image["slug"], image["state"], image["frameworks"]) == ("pytorch", "out of date", {"torch": "2.13.0"})
        begun = await ask("POST", "doctor")
        assert (begun.status_code, begun.json()["at"]) == (202, None)
        await until(lambda: not found.latest().is_running)
        examined = (await ask("GET", "doctor")).json()
        assert (examined["at"], examined["findings"][0]["advice"]) == (NOW.isoformat(), "Free some.")
        (told,) = (await ask("GET", "alerts", "reader")).json()["alerts"]
        assert (told["percent"], told["spent_micro"], told["sent_at"]) == (80, 8_000_000, None)
    async with serving(engine, images=Images(None)) as ask:
        assert (await ask("GET", "images")).json() == {"images": None}
        assert (await ask("GET", "doctor")).status_code == 503


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "broadcasts"),
        ("DELETE", "broadcasts/1"),
        ("PUT", "maintenance"),
        ("DELETE", "maintenance"),
        ("GET", "images"),
        ("GET", "doctor"),
        ("POST", "doctor"),
    ],
)
@pytest.mark.parametrize("who", ["ann", "reader", "server"])
async def test_who_operates_nothing_is_refused(engine, method, path, who):
    async with serving(engine, doctor=SimpleNamespace()) as ask:
        assert (await ask(method, path, who, text="x", seconds=60, reason="x")).status_code == 403
    assert SqlAuditLog(engine).latest() == ()
