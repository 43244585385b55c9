"""A Docker engine that can be taken away: a socket of ours, before the real one, with faults that a test decides."""

import contextlib
import http.client
import http.server
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REAL = "/var/run/docker.sock"
_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass(frozen=True)
class Fault:
    """What happens to one call: it is late, it gets an answer of ours, or none."""

    delay: float = 0.0  # seconds before anything else
    status: int = 0  # answered without asking the engine
    drop: bool = False  # the connection is cut before the engine is asked
    drop_answer: bool = False  # the engine does it, and the answer is lost


class RealConnection(http.client.HTTPConnection):
    """HTTP to the real engine."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(REAL)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "EngineAway"

    def setup(self) -> None:
        super().setup()
        self.server.live.add(self.connection)

    def finish(self) -> None:
        self.server.live.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.calls.append(f"{self.command} {self.path}")
        self.server.pause_if_hung()
        fault = self.server.choose(self.command, self.path)
        time.sleep(fault.delay)
        if fault.drop or self.server.is_away:
            self._cut()
        elif fault.status:
            self._answer(fault.status, [("Content-Type", "application/json")], b'{"message": "a fault for a test"}')
        else:
            self._forward(body, cut=fault.drop_answer)

    do_GET = do_POST = do_DELETE = do_HEAD = do_PUT = _serve

    def _forward(self, body: bytes, *, cut: bool) -> None:
        real = RealConnection("localhost", timeout=60)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
            real.request(self.command, self.path, body or None, headers)
            answer = real.getresponse()
            content = answer.read()
        finally:
            real.close()
        if cut or self.server.is_away:
            self._cut()
        else:
            self._answer(answer.status, answer.getheaders(), content)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _cut(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class EngineAway(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Serves the real engine on `path` until it is told otherwise."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, path: Path) -> None:
        self.path = path
        self.live: set[socket.socket] = set()
        self.calls: list[str] = []
        self.choose: Callable[[str, str], Fault] = lambda method, path: Fault()
        self.is_away = False
        self._running = threading.Event()  # cleared while it hangs
        self._running.set()
        super().__init__(str(path), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def docker_host(self) -> str:
        """The value of DOCKER_HOST."""
        return f"unix://{self.path}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Cut connections are what this is for."""

    # What tests do to it

    @contextlib.contextmanager
    def away(self):
        """Nothing listens any more, and what is under way is cut."""
        self.is_away = True
        self.path.rename(self.path.with_suffix(".away"))
        self._cut_all()
        try:
            yield
        finally:
            self.is_away = False
            self.path.with_suffix(".away").rename(self.path)

    @contextlib.contextmanager
    def hanging(self):
        """Connections are taken and calls are read, and no answer comes until this ends."""
        self._running.clear()
        try:
            yield
        finally:
            self._running.set()

    def close(self) -> None:
        """End it."""
        self._running.set()
        self.shutdown()
        self.server_close()
        self._cut_all()

    # What the handlers ask

    def pause_if_hung(self) -> None:
        """Wait while it hangs."""
        self._running.wait(120)

    def _cut_all(self) -> None:
        for connection in list(self.live):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
