"""What is told the hub and when; what a hub that does not answer costs; the notice file; the session as it is shown."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

from nbgpu.core.errors import HubRefused, HubUnavailable
from nbgpu.panel.server.link import Link, find_link
from nbgpu.panel.server.notice import NoticeFile
from nbgpu.panel.server.reporter import EVERY_S, LEAST_S, LONGEST_S, Reporter
from nbgpu.panel.server.session import HubSession

ENVIRON = {"NBGPU_SERVICE_URL": "http://10.0.0.1:8082/", "NBGPU_SESSION_ID": "s1", "JUPYTERHUB_API_TOKEN": "secret-t"}


class Time:
    """Sleeps that end when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, future))
        await future

    async def forward(self, seconds: float) -> None:
        """Let time pass, and what happens in it happen."""
        end = self.now + seconds
        await settle()
        while due := [each for each in self._sleepers if each[0] <= end and not each[1].done()]:
            first = min(due, key=lambda each: each[0])
            self.now = first[0]
            self._sleepers.remove(first)
            first[1].set_result(None)
            await settle()
        self.now = end


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Service:
    """The hub's service: answers, or does not."""

    def __init__(self, time: Time) -> None:
        self.time, self.fails, self.asked_at = time, False, []

    async def report(self, report: Any) -> dict[str, Any]:
        self.asked_at.append(self.time.now)
        if self.fails:
            raise HubUnavailable("it does not answer")
        return {"session_id": "s1"}


@pytest.fixture
async def running():
    """A reporter that runs, with its time and its service; and what it was told."""
    time = Time()
    service, told = Service(time), []
    reporter = Reporter(service, dict, told.append, sleep=time.sleep)
    task = asyncio.ensure_future(reporter.run())
    await settle()
    yield reporter, time, service, told
    task.cancel()
    await asyncio.wait([task])


async def test_reports_come_twice_a_minute_and_sooner_for_a_person_but_not_often(running):
    reporter, time, service, _ = running
    assert service.asked_at == [0]
    await time.forward(EVERY_S)
    assert service.asked_at == [0, 30]
    for _ in range(10):
        reporter.hurry()  # somebody types
        await time.forward(1)
    await time.forward(4)
    assert service.asked_at == [0, 30]
    await time.forward(1)
    assert service.asked_at == [0, 30, 45], f"not before {LEAST_S} s"
    await time.forward(20)
    reporter.hurry()
    await settle()
    assert service.asked_at == [0, 30, 45, 65], "at once"


async def test_a_service_that_is_away_is_asked_less_and_less_and_one_line_says_so(running, caplog):
    reporter, time, service, told = running
    caplog.set_level(logging.INFO, "nbgpu.panel")
    service.fails = True
    await time.forward(6 * 24 * 3600)
    gaps = [later - earlier for earlier, later in zip(service.asked_at, service.asked_at[1:], strict=False)]
    assert gaps[:6] == [EVERY_S, 60, 120, 240, LONGEST_S, LONGEST_S]
    assert set(gaps[6:]) == {LONGEST_S}
    reporter.hurry()
    await settle()
    assert len(service.asked_at) == len(gaps) + 1, "nobody is in a hurry while there is no answer"
    service.fails = False
    await time.forward(LONGEST_S + EVERY_S)
    assert told[:3] == [{"session_id": "s1"}, None, {"session_id": "s1"}]
    assert None not in told[3:]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def serve(answer: Callable[[RequestHandler], None]) -> tuple[str, HTTPServer, list[Any]]:
    """A service on a free port; what it was asked."""
    asked: list[Any] = []

    class Handler(RequestHandler):
        def post(self, path: str) -> None:
            asked.append((path, dict(self.request.headers), json.loads(self.request.body)))
            answer(self)

    server = HTTPServer(Application([("/(.*)", Handler)]))
    socket, port = bind_unused_port()
    server.add_socket(socket)
    return f"http://127.0.0.1:{port}", server, asked


async def test_the_link_asks_with_the_servers_own_token():
    url, server, asked = serve(lambda handler: handler.write({"session_id": "s1", "cost_micro": None}))
    link = find_link({**ENVIRON, "NBGPU_SERVICE_URL": url})
    assert await link.report({"kernels": 2}) == {"session_id": "s1", "cost_micro": None}
    await link.extend()
    assert [(path, body) for path, _, body in asked] == [
        ("services/nbgpu/api/v1/sessions/s1/report", {"kernels": 2}),
        ("services/nbgpu/api/v1/sessions/s1/extend", {}),
    ]
    assert asked[0][1]["Authorization"] == "token secret-t"
    assert "secret-t" not in repr(link)
    server.stop()


def _refuse(handler: RequestHandler) -> None:
    handler.set_status(409)
    handler.write({"detail": "No more than 4 h at a time: ask an administrator."})


def _break(handler: RequestHandler) -> None:
    handler.set_status(502)
    handler.write("<html>bad gateway</html>")


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (_refuse, HubRefused, "No more than 4 h at a time"),
        (lambda handler: handler.set_status(404), HubRefused, "answered 404"),
        (_break, HubUnavailable, "try again in a minute"),
        (lambda handler: handler.write("<html>a login page</html>"), HubUnavailable, "does not tell of this session"),
        (lambda handler: handler.write({"session_id": "other"}), HubUnavailable, "does not tell of this session"),
        (lambda handler: handler.redirect("/hub/login"), HubRefused, "answered 302"),
    ],
)
async def test_what_is_no_status_is_said_in_words(answer, error, words):
    url, server, _ = serve(answer)
    with pytest.raises(error, match=words):
        await Link(url, "s1", "t").extend()
    server.stop()


async def test_nobody_who_listens_is_no_answer():
    socket, port = bind_unused_port()
    socket.close()
    with pytest.raises(HubUnavailable, match="does not answer"):
        await Link(f"http://127.0.0.1:{port}", "s1", "t").report({})


@pytest.mark.parametrize("missing", sorted(ENVIRON))
def test_without_a_hub_there_is_no_link(missing):
    assert find_link({**ENVIRON, missing: ""}) is None
    assert find_link({name: value for name, value in ENVIRON.items() if name != missing}) is None


NOTICE = {"text": "It will be stopped.", "stop_at": "2026-11-02T10:00:00+00:00", "cause": "budget"}


def test_a_notice_is_read_when_it_comes_and_when_it_changes(tmp_path):
    file = tmp_path / "notice.json"
    notices = NoticeFile(str(file))
    assert (notices.look(), notices.notice) == (False, None)
    file.write_text(json.dumps(NOTICE))
    assert (notices.look(), notices.notice) == (True, NOTICE)
    assert notices.look() is False
    (tmp_path / "draft").write_text(json.dumps(NOTICE | {"stop_at": None}))
    (tmp_path / "draft").replace(file)
    assert (notices.look(), notices.notice["stop_at"]) == (True, None)
    file.unlink()
    assert (notices.look(), notices.notice) == (True, None)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"text": 7}', b'{"text": "x"' + b" " * 20_000 + b"}"])
def test_a_file_that_is_no_notice_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "n").write_bytes(content)
    notices = NoticeFile(str(tmp_path / "n"))
    assert (notices.look(), notices.notice) == (False, None)
    assert NoticeFile(None).look() is False
    assert NoticeFile(str(tmp_path)).look() is False


async def test_the_session_is_told_when_it_changes_and_asked_for_when_it_matters(tmp_path):
    class Extender:
        async def extend(self):
            return {"session_id": "s1", "stop": None, "extended": True}

    told, hurries, now = [], [], [100.0]
    session = HubSession(Extender(), NoticeFile(str(tmp_path / "n")), told.append, now_s=lambda: now[0])
    session.hurry = lambda: hurries.append(now[0])
    assert session.state == {"status": None, "notice": None, "away": True}
    session.take({"session_id": "s1", "stop": None})
    session.person()
    session.refresh()
    assert (told, hurries) == ([{"status": {"session_id": "s1", "stop": None}, "notice": None, "away": False}], [])
    session.take({"session_id": "s1", "stop": {"at": "…", "cause": "idle"}})
    session.person()
    now[0] += LEAST_S
    session.refresh()
    assert hurries == [100, 100 + LEAST_S]
    (tmp_path / "n").write_text(json.dumps(NOTICE))
    session.look()
    assert told[-1]["notice"] == NOTICE
    await session.extend()
    assert told[-1]["status"]["extended"]


async def test_a_server_without_a_hub_has_no_session(tmp_path):
    told = []
    session = HubSession(None, NoticeFile(None), told.append)
    session.look()
    session.refresh()
    session.person()
    assert (session.state, told) == (None, [])
    with pytest.raises(HubRefused, match="not one of an nbgpu hub"):
        await session.extend()
