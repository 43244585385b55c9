"""A local deployment as a person runs it: `nbgpu run` where no Docker engine can be had."""

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from e2e.running import COMMAND, free_port, until

NO_ENGINE = {"DOCKER_HOST": "unix:///nonexistent"}


class LocalRun:
    """One data folder with a hub; `prefix` is put before each command line, to run it as somebody else."""

    def __init__(self, folder: Path, settings: Path, prefix: Sequence[str] = ()) -> None:
        self.folder, self.data, self.settings = folder, folder / "data", settings
        self.port, self._prefix = free_port(), tuple(prefix)
        self._environ = {**os.environ, **NO_ENGINE, "HOME": str(folder)}
        self.process: subprocess.Popen[bytes] | None = None
        self.said = ""
        self._api: httpx.Client | None = None

    def _command(self, *arguments: str) -> list[str]:
        return [*self._prefix, *COMMAND, *arguments, "--data", str(self.data)]

    def start(self) -> None:
        """Start the hub and wait until it says that it serves."""
        output = self.folder / "run.out"
        with output.open("wb") as file:
            arguments = ("run", "--port", str(self.port), "--config", str(self.settings))
            self.process = subprocess.Popen(
                self._command(*arguments), env=self._environ, cwd=self.folder, stdout=file, stderr=file
            )

        def serves() -> bool:
            self.said = output.read_text()
            assert self.process is not None
            assert self.process.poll() is None, self.said
            return "Ctrl-C stops the hub" in self.said

        until(serves, seconds=60)

    def end(self, number: signal.Signals) -> None:
        """Send a signal to `nbgpu run` and wait for its end; idempotent."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(45)
            self.process = None

    def command(self, *arguments: str, config: bool = False) -> str:
        """Return what a command of ours prints."""
        more = ("--config", str(self.settings)) if config else ()
        done = subprocess.run(
            self._command(*arguments, *more),
            env=self._environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def leases(self) -> list[dict[str, Any]]:
        """Return the open leases."""
        found: list[dict[str, Any]] = json.loads(self.command("leases", "--json", config=True))
        return found

    @property
    def url(self) -> str:
        """The hub's address."""
        return f"http://127.0.0.1:{self.port}/hub"

    @property
    def api(self) -> httpx.Client:
        """The hub's REST API with an admin's token."""
        if self._api is None:
            token = (self.data / "demo-admin-token").read_text().strip()
            headers = {"Authorization": f"token {token}"}
            self._api = httpx.Client(base_url=f"{self.url}/api", headers=headers, timeout=60)
        return self._api

    def ask_for(self, user: str, profile: str) -> None:
        """Ask for a server."""
        self.api.post(f"/users/{user}").raise_for_status()
        answer = self.api.post(f"/users/{user}/server", json={"profile": profile, "image": "base"})
        assert answer.status_code in (201, 202), answer.text

    def is_ready(self, user: str) -> bool:
        """Whether the user's server answers the hub."""
        server = self.api.get(f"/users/{user}").raise_for_status().json()["servers"].get("")
        assert server is not None, f"the server of {user} failed"
        return bool(server["ready"])

    def notebook(self, user: str, path: str) -> httpx.Response:
        """Ask the user's own JupyterLab through the proxy."""
        token = self.api.post(f"/users/{user}/tokens", json={"note": "test"}).raise_for_status().json()["token"]
        url = f"http://127.0.0.1:{self.port}/user/{user}/{path}"
        return httpx.get(url, headers={"Authorization": f"token {token}"}, timeout=20)

    def processes(self) -> list[int]:
        """Return everything that runs of this deployment: hub, proxy, keepers, servers, kernels."""
        needles = [f"{name}={self.data}" for name in ("NBGPU_DATA",)]
        if (self.data / "prefix").exists():
            needles.append(f"NBGPU_DEPLOYMENT={(self.data / 'prefix').read_text().strip()}")
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                variables = path.read_text(errors="replace").split("\0")
            except OSError:
                continue
            if set(needles) & set(variables):
                found.append(int(path.parent.name))
        return found

    def close(self) -> None:
        """Purge the deployment, whatever a test left of it."""
        if self._api is not None:
            self._api.close()
        if self.data.exists():
            self.command("purge", "--yes")
        if self.process is not None:
            self.process.wait(10)
