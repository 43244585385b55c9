"""A notebook's user without a browser: kernels of a running server, over its own API."""

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect


class Notebook:
    """One server, asked as its user."""

    def __init__(self, hub_url: str, user: str, token: str) -> None:
        self._url = f"{hub_url}/user/{user}"
        self._headers = {"Authorization": f"token {token}"}

    def start_kernel(self) -> str:
        """Start a kernel; return its id."""
        url = f"{self._url}/api/kernels"
        answer = httpx.post(url, json={"name": "python3"}, headers=self._headers, timeout=30)
        kernel: str = answer.raise_for_status().json()["id"]
        return kernel

    def run(self, kernel: str, code: str) -> None:
        """Send a cell to a kernel, see it begin, and close the browser."""
        asyncio.run(self._run(kernel, code))

    @contextmanager
    def open_tab(self, kernel: str) -> Iterator[None]:
        """Keep a connection to a kernel open, and say nothing."""
        with ThreadPoolExecutor(1) as thread:  # its loop answers the server's pings, as a page does
            is_open, ends = threading.Event(), threading.Event()
            tab = thread.submit(asyncio.run, self._stay(kernel, is_open, ends))
            try:
                assert is_open.wait(20)
                yield
            finally:
                ends.set()
                tab.result()

    async def _stay(self, kernel: str, is_open: threading.Event, ends: threading.Event) -> None:
        connection = await self._connect(kernel)
        is_open.set()
        await asyncio.to_thread(ends.wait)
        await _close(connection)

    async def _run(self, kernel: str, code: str) -> None:
        connection = await self._connect(kernel)
        message = _execute_request(code)
        await connection.write_message(json.dumps(message))
        async with asyncio.timeout(30):
            while not _is_input(await connection.read_message(), message):
                pass
        await _close(connection)

    async def _connect(self, kernel: str) -> WebSocketClientConnection:
        url = f"{self._url}/api/kernels/{kernel}/channels".replace("http", "ws", 1)
        return await websocket_connect(HTTPRequest(url, headers=self._headers))


async def _close(connection: WebSocketClientConnection) -> None:
    connection.close()
    while await connection.read_message() is not None:  # None: it is closed
        pass


def _execute_request(code: str) -> dict[str, Any]:
    """Return the message that a page sends for a cell (Jupyter's messaging protocol 5.3)."""
    return {
        "header": {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "session": "page", "version": "5.3"},
        "parent_header": {},
        "metadata": {},
        "content": {"code": code, "silent": False, "store_history": True, "user_expressions": {}},
        "channel": "shell",
        "buffers": [],
    }


def _is_input(text: str | bytes | None, sent: dict[str, Any]) -> bool:
    """Whether a message says that the kernel has begun with a cell."""
    assert text is not None, "the server closed the connection"
    message = json.loads(text)
    return message["msg_type"] == "execute_input" and message["parent_header"]["msg_id"] == sent["header"]["msg_id"]
