"""A real Jupyter server with the panel's extension, as its own process, and a hub's service that it tells of itself."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

import nbgpu.panel

PREFIX = Path(nbgpu.panel.__file__).parent / "prefix"
TOKEN = "panel"
HURRIED = """
from nbgpu.panel.server import extension, reporter, session
reporter.EVERY_S, reporter.LEAST_S, reporter.LONGEST_S = 0.4, 0.2, 0.4
session.LEAST_S, extension.LOOK_S = 0.2, 0.1
"""  # so that a test need not wait for half a minute


class HubService:
    """What the `nbgpu` service does for one session: keeps what is reported, answers with a status that a test sets."""

    def __init__(self, status: dict[str, Any]) -> None:
        self.status, self.reports, self.tokens, self.extended = status, [], set(), 0
        self._changed = threading.Condition()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(service.take(self.path, body, self.headers["Authorization"])).encode()
                self.send_response(200 if service.status else 503)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str, body: dict[str, Any], token: str) -> dict[str, Any]:
        with self._changed:
            self.tokens.add(token)
            if path == "/services/nbgpu/api/v1/sessions/s1/extend":
                self.extended += 1
                self.status = {**self.status, "stop": None}
            else:
                assert path == "/services/nbgpu/api/v1/sessions/s1/report"
                self.reports.append(body)
            self._changed.notify_all()
            return self.status

    def until(self, condition: Any, *, seconds: float = 20) -> dict[str, Any]:
        """Wait for a report of which `condition` holds, of those that come from now on; return it."""
        with self._changed:
            begin = len(self.reports)
            found = self._changed.wait_for(lambda: [r for r in self.reports[begin:] if condition(r)], seconds)
            assert found, f"the last report is {self.reports[-1:]}"
            return found[0]

    def environment(self) -> dict[str, str]:
        """What a spawner gives to its server."""
        return {"NBGPU_SERVICE_URL": self.url, "NBGPU_SESSION_ID": "s1", "JUPYTERHUB_API_TOKEN": "own-token"}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@contextmanager
def jupyter(
    folder: Path, environ: dict[str, str], *, app: str, options: Sequence[str] = (), hurried: bool = True
) -> Iterator[str]:
    """Run a server of `app` ("jupyterlab", "jupyter_server") on its own port; give its address."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = {name: str(folder / name.lower()) for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    environ = {**os.environ, "HOME": str(home), "JUPYTER_CONFIG_DIR": str(folder / "config"), **places, **environ}
    # As after an install: what a wheel puts into the environment's own folder is taken from the source tree.
    environ |= {"JUPYTER_PATH": str(PREFIX / "share/jupyter"), "JUPYTER_CONFIG_PATH": str(PREFIX / "etc/jupyter")}
    arguments = [f"--port={port}", f"--IdentityProvider.token={TOKEN}", "--no-browser", "--allow-root", *options]
    arguments += [f"--ServerApp.root_dir={home}"]
    code = HURRIED * hurried + f"import runpy, sys; sys.argv[0] = 'x'; runpy.run_module({app!r}, run_name='__main__')"
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen([sys.executable, "-c", code, *arguments], env=environ, stdout=log, stderr=log)
    (folder / "server.pid").write_text(str(server.pid))
    try:
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(transport=httpx.HTTPTransport(retries=8), trust_env=False) as client:  # half a minute
            assert client.get(f"{url}/api?token={TOKEN}", timeout=30).status_code == 200
        yield url
    finally:
        server.terminate()
        server.wait(30)
    said = (folder / "server.log").read_text()
    assert "Traceback" not in said, said
    assert "own-token" not in said
