"""The extension in a real Jupyter server, asked over its websockets: what it reports, and the one sampler."""

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from nbgpu.nvml.simulator import SimulatedDriver
from nbgpu.nvml.simulator.process_view import show_devices
from panel.jupyter import TOKEN, HubService, jupyter

STATUS = {"session_id": "s1", "stop": None, "idle": None, "budgets": [], "cost_micro": 120_000, "currency": "USD"}
HEADERS = {"Authorization": f"token {TOKEN}"}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, library: Path) -> SimulatedDriver:
    found = SimulatedDriver(tmp_path_factory.mktemp("driver"))
    found.create("t4")
    found.library_folder.mkdir(exist_ok=True)
    os.link(library, found.library_folder / library.name)
    return found


@pytest.fixture(scope="module")
def shared_hub() -> Iterator[HubService]:
    found = HubService(dict(STATUS))
    yield found
    found.close()


@pytest.fixture(scope="module")
def notice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notice") / "notice.json"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "server.log"


@pytest.fixture(scope="module")
def server(shared_hub: HubService, driver: SimulatedDriver, notice: Path, log: Path) -> Iterator[str]:
    environ = {**show_devices(driver, driver.uuids), **shared_hub.environment(), "NBGPU_NOTICE_FILE": str(notice)}
    with jupyter(log.parent, environ, app="jupyter_server") as url:
        yield url


@pytest.fixture
def hub(shared_hub: HubService, server: str) -> HubService:
    shared_hub.status, shared_hub.extended = dict(STATUS), 0
    return shared_hub


@pytest.fixture
def client(server: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server, headers=HEADERS, trust_env=False, timeout=30) as found:
        yield found


@asynccontextmanager
async def connected(url: str, path: str) -> AsyncIterator[WebSocketClientConnection]:
    socket = await websocket_connect(f"{url.replace('http', 'ws')}{path}?token={TOKEN}")
    try:
        yield socket
    finally:
        socket.close()
        while await asyncio.wait_for(socket.read_message(), 10) is not None:
            pass


def _code(code: str, *, kind: str = "execute_request") -> str:
    header = {"msg_id": uuid4().hex, "msg_type": kind, "username": "", "session": uuid4().hex, "version": "5.3"}
    content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
    return json.dumps(
        {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell", "buffers": []}
    )


async def _until_idle(socket: WebSocketClientConnection, code: str) -> str:
    """Run code and return what it printed."""
    request = _code(code)
    await socket.write_message(request)
    own, printed = json.loads(request)["header"]["msg_id"], ""
    while True:
        message = json.loads(await asyncio.wait_for(socket.read_message(), 30))
        if message["parent_header"].get("msg_id") != own:
            continue
        content = message["content"]
        assert message["msg_type"] != "error", content
        printed += content["text"] if message["msg_type"] == "stream" else ""
        if content.get("execution_state") == "idle":
            return printed


def in_thread(function: Any, *args: Any) -> Any:
    return asyncio.wait_for(asyncio.to_thread(function, *args), 30)


async def test_a_server_reports_what_happens_in_it(hub: HubService, server: str, client: httpx.Client) -> None:
    assert hub.reports[0] == {
        "kernels": 0,
        "kernels_busy": 0,
        "terminals": 0,
        "terminal_jobs": 0,
        "person_s_ago": None,
        "sockets": 0,
    }
    kernel = (await asyncio.to_thread(client.post, "/api/kernels")).json()["id"]
    async with connected(server, f"/api/kernels/{kernel}/channels") as socket:
        await in_thread(hub.until, lambda report: report["kernels"] == 1 and report["sockets"] == 1)
        assert hub.reports[-1]["person_s_ago"] is None, "to start a kernel and to look is not to work"
        busy = asyncio.ensure_future(_until_idle(socket, "import time; time.sleep(2)"))
        found = await in_thread(hub.until, lambda report: report["kernels_busy"] == 1)
        assert found["person_s_ago"] < 2
        await busy
        await in_thread(hub.until, lambda report: report["kernels_busy"] == 0)
    await in_thread(hub.until, lambda report: report["sockets"] == 0)
    assert hub.tokens == {"token own-token"}


async def test_a_terminal_tells_of_typing_and_of_what_runs_in_it(
    hub: HubService, server: str, client: httpx.Client
) -> None:
    terminal = (await asyncio.to_thread(client.post, "/api/terminals")).json()["name"]
    async with connected(server, f"/terminals/websocket/{terminal}") as socket:
        await in_thread(hub.until, lambda report: report["terminals"] == 1 and report["sockets"] == 1)
        await in_thread(hub.until, lambda report: report["terminal_jobs"] == 0)
        await in_thread(hub.until, lambda report: report["person_s_ago"] is None or report["person_s_ago"] > 2)
        await socket.write_message(json.dumps(["stdin", "sleep 3\r"]))
        found = await in_thread(hub.until, lambda report: report["terminal_jobs"] == 1)
        assert found["person_s_ago"] < 2
        await in_thread(hub.until, lambda report: report["terminal_jobs"] == 0)


async def test_a_saved_file_is_an_act_and_an_act_may_call_off_a_stop(hub: HubService, client: httpx.Client) -> None:
    hub.status = {**STATUS, "stop": {"at": "2026-11-02T10:00:00+00:00", "cause": "idle", "text": "…"}}
    await in_thread(hub.until, lambda report: report["person_s_ago"] is None or report["person_s_ago"] > 2)
    file = {"type": "file", "format": "text", "content": "x"}
    (await asyncio.to_thread(lambda: client.put("/api/contents/a.txt", json=file))).raise_for_status()
    await in_thread(hub.until, lambda report: report["person_s_ago"] is not None and report["person_s_ago"] < 2)


async def _read(socket: WebSocketClientConnection, key: str, condition: Any = lambda _: True) -> Any:
    while True:
        message = json.loads(await asyncio.wait_for(socket.read_message(), 20))
        if key in message and condition(message[key]):
            return message[key]


async def test_pages_and_kernels_have_one_sampler(
    hub: HubService, server: str, client: httpx.Client, driver: SimulatedDriver
) -> None:
    driver.set(driver.uuids[0], gpu_utilization=61)
    kernel = (await asyncio.to_thread(client.post, "/api/kernels")).json()["id"]
    channels = f"/api/kernels/{kernel}/channels"
    async with (
        connected(server, "/nbgpu/stream") as one,
        connected(server, "/nbgpu/stream") as other,
        connected(server, channels) as socket,
    ):
        assert (await _read(one, "past")).keys() >= {"host"}
        session = await _read(one, "session", lambda found: found and found["status"])
        assert session["status"]["cost_micro"] == 120_000
        now = await _read(one, "frame", lambda frame: frame["devices"][0]["now"]["gpu_utilization"] == 61)
        times = [now["at"], *[(await _read(one, "frame"))["at"] for _ in range(3)]]
        assert all(0.5 < later - earlier < 2 for earlier, later in itertools.pairwise(times))
        seen = [(await _read(other, "frame"))["at"] for _ in range(4)]
        assert len(set(times) & set(seen)) >= 2, "the very same readings"
        panel = "from nbgpu.panel import GpuPanel; panel, other = GpuPanel(), GpuPanel(); print(panel.gpu_utilization)"
        assert await _until_idle(socket, panel) == "[61]\n"
        asks = "print('libnvidia-ml' in open('/proc/self/maps').read(), panel._session['status']['cost_micro'])"
        assert await _until_idle(socket, asks) == "False 120000\n", "the kernel does not ask the driver itself"


async def test_more_time_is_asked_for_and_told_to_all(hub: HubService, server: str, client: httpx.Client) -> None:
    hub.status = {**STATUS, "stop": {"at": "2026-11-02T10:00:00+00:00", "cause": "idle", "text": "…"}}
    async with connected(server, "/nbgpu/stream") as stream:
        await _read(stream, "session", lambda found: found and found["status"] and found["status"]["stop"])
        answer = await asyncio.to_thread(lambda: client.post("/nbgpu/extend", json={}))
        assert (answer.status_code, answer.json(), hub.extended) == (200, {}, 1)
        await _read(stream, "session", lambda found: not found["status"]["stop"])
        hub.status = None
        answer = await asyncio.to_thread(lambda: client.post("/nbgpu/extend", json={}))
        assert answer.status_code == 503
        assert "try again in a minute" in answer.json()["message"]
        await _read(stream, "session", lambda found: found["away"])


async def test_a_notice_is_told(server: str, notice: Path) -> None:
    content = {"text": "lost", "stop_at": None, "cause": "gpu_lost"}
    async with connected(server, "/nbgpu/stream") as stream:
        await _read(stream, "frame")
        notice.with_name("draft").write_text(json.dumps(content))
        notice.with_name("draft").replace(notice)
        session = await _read(stream, "session", lambda found: found["notice"])
        assert session["notice"] == content


@pytest.mark.parametrize(("method", "path"), [("GET", "/nbgpu/stream"), ("POST", "/nbgpu/extend")])
def test_strangers_see_nothing(server: str, method: str, path: str) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "x"}
    answer = httpx.request(method, server + path, headers=headers if method == "GET" else {}, trust_env=False)
    assert answer.status_code == 403
    assert httpx.get(f"{server}/nbgpu/static/lab.js", trust_env=False).status_code == 200
    assert httpx.get(f"{server}/nbgpu/static/widget.py", trust_env=False).status_code == 404


async def test_another_sites_page_may_not_listen(server: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as browser:
        assert (await browser.get(f"{server}/api/status?token={TOKEN}")).status_code == 200
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    url = f"{server.replace('http', 'ws')}/nbgpu/stream"
    own = await websocket_connect(HTTPRequest(url, headers={"Origin": server, "Cookie": cookie}))
    assert "session" in json.loads(await own.read_message())
    own.close()
    while await own.read_message() is not None:
        pass
    with pytest.raises(HTTPClientError, match="403"):
        await websocket_connect(HTTPRequest(url, headers={"Origin": "http://evil.example", "Cookie": cookie}))


async def test_one_line_of_the_servers_log_says_that_the_hub_is_away(hub: HubService, server: str, log: Path) -> None:
    hub.status = None
    await in_thread(hub.until, lambda _: True)
    await in_thread(hub.until, lambda _: True)
    hub.status = dict(STATUS)
    await in_thread(hub.until, lambda _: True)
    await in_thread(hub.until, lambda _: True)
    text = await asyncio.to_thread(log.read_text)
    told = [line for line in text.splitlines() if "nbgpu service" in line][-2:]
    assert [line[:2] for line in told] == ["[W", "[I"]
    assert "does not answer; try again in a minute" in told[0]


async def test_it_works_where_terminals_are_off_and_there_is_no_hub(tmp_path: Path, driver: SimulatedDriver) -> None:
    environ = show_devices(driver, driver.uuids)
    off = ["--ServerApp.terminals_enabled=False"]
    with jupyter(tmp_path, environ, app="jupyter_server", options=off) as url:
        async with connected(url, "/nbgpu/stream") as stream:
            assert json.loads(await stream.read_message()) == {"session": None}
            assert (await _read(stream, "frame"))["devices"][0]["name"] == "Tesla T4"
