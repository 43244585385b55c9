"""A deployment as a person runs it: `nbgpu run` in a process of its own, asked over HTTP and in Docker."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import docker
import httpx
from bs4 import BeautifulSoup
from sqlalchemy import Engine

from nbgpu.core.leases import Lease, ServerRef
from nbgpu.store import SqlLeaseStore, open_database

LABEL = "org.nbgpu.deployment"
COMMAND = [sys.executable, "-c", "from nbgpu.cli.main import main; main()"]
READY_SECONDS = 120  # the first start on a machine may find the image out of date


def until(condition: Callable[[], Any], *, seconds: float = 20, why: str = "it did not happen in time") -> Any:
    """Return the first truthy value of `condition`, asked again and again."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, why
        time.sleep(0.05)
    return value


def free_port() -> int:
    """Return a port that is free together with its neighbour, which the hub's proxy takes.

    Below those that Linux gives to outgoing connections: one of these could take it before the hub listens.
    """
    while True:
        port = random.randrange(10_000, 20_000, 2)
        with socket.socket() as first, socket.socket() as second, contextlib.suppress(OSError):
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 1))
            return port


class Deployment:
    """One data folder with a hub that can be started, stopped and killed."""

    def __init__(self, data: Path, settings: Path) -> None:
        self.data, self.settings, self.port = data, settings, free_port()
        self.process: subprocess.Popen[str] | None = None
        self.engine = docker.from_env(timeout=30)
        self._api: httpx.Client | None = None
        self._database: Engine | None = None

    # The hub's process

    def start(self) -> None:
        """Start the hub and wait until it says that it serves."""
        self._output = (self.data.parent / f"{self.data.name}.out").open("a+")
        self._output.seek(0, os.SEEK_END)
        said_before = self._output.tell()
        self.process = subprocess.Popen(
            [*COMMAND, "run", "--port", str(self.port), "--data", str(self.data), "--config", str(self.settings)],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.data.parent,
        )

        def serves() -> bool:
            said = Path(self._output.name).read_text()[said_before:]
            assert self.process is None or self.process.poll() is None, said
            return "Ctrl-C stops the hub" in said

        until(serves, seconds=READY_SECONDS, why=f"the hub does not serve: {self._output.name}")

    def stop(self) -> None:
        """Press Ctrl-C and wait for the end; idempotent."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill the `nbgpu run` process, which can then end nothing itself."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(45)
            self.process = None
            self._output.close()

    def serves(self) -> bool:
        """Whether anything answers on the hub's port."""
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/hub/health", timeout=5).status_code == httpx.codes.OK
        return False

    # Ways to ask it

    @property
    def url(self) -> str:
        """The address for a browser."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def prefix(self) -> str:
        """What all names of this deployment in Docker begin with."""
        return (self.data / "prefix").read_text().strip()

    @property
    def password(self) -> str:
        """The demo login's password."""
        return (self.data / "demo-password").read_text().strip()

    @property
    def api(self) -> httpx.Client:
        """A client of the hub's REST API with the scripts' token."""
        if self._api is None:
            token = (self.data / "demo-admin-token").read_text().strip()
            headers = {"Authorization": f"token {token}"}
            self._api = httpx.Client(base_url=f"{self.url}/hub/api", headers=headers, timeout=60)
        return self._api

    def command(self, *arguments: str) -> str:
        """Run the `nbgpu` command on this deployment; return what it prints."""
        done = subprocess.run(
            [*COMMAND, *arguments, "--data", str(self.data)],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=self.data.parent,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def listed_leases(self) -> list[dict[str, Any]]:
        """Return what `nbgpu leases` prints."""
        found: list[dict[str, Any]] = json.loads(self.command("leases", "--json", "--config", str(self.settings)))
        return found

    def leases(self) -> tuple[Lease, ...]:
        """Return the same from the database, without the time that a command takes."""
        if self._database is None:
            self._database = open_database(f"sqlite:///{self.data / 'nbgpu.sqlite'}")
        return SqlLeaseStore(self._database).open_leases()

    def lease(self, user: str, server: str = "") -> Lease | None:
        """Return the lease of one server, None when it has none."""
        mine = [each for each in self.leases() if each.server == ServerRef(user, server)]
        assert len(mine) <= 1
        return mine[0] if mine else None

    # Users and servers

    def add_user(self, name: str, *groups: str) -> str:
        """See that a user is there, in groups that are made as well; return the name."""
        assert self.api.post(f"/users/{name}").status_code in (httpx.codes.CREATED, httpx.codes.CONFLICT)
        for group in groups:
            self.api.post(f"/groups/{group}")  # 409 when it is there
            self.api.post(f"/groups/{group}/users", json={"users": [name]}).raise_for_status()
        return name

    def start_server(self, user: str, server: str = "", **options: Any) -> httpx.Response:
        """Ask for a start; return the hub's answer, which comes when the server is up or the start is refused."""
        return self.api.post(_server_path(user, server), json=options)

    def started(self, user: str, server: str = "", **options: Any) -> dict[str, Any]:
        """Start a server, wait until it is ready, and return the hub's model of it."""
        answer = self.start_server(user, server, **options)
        assert answer.status_code in (201, 202), answer.text
        return self.wait_ready(user, server)

    def start_all(self, servers: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        """Start servers at the same time, each (user, server, options), and wait until all are ready."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda each: self.started(each[0], each[1], **each[2]), servers))

    def wait_ready(self, user: str, server: str = "") -> dict[str, Any]:
        """Wait until a server is ready and return the hub's model of it."""
        ready = until(lambda: self._ready(user, server), seconds=60, why=f"{user}/{server} does not get ready")
        model: dict[str, Any] = ready
        return model

    def _ready(self, user: str, server: str) -> dict[str, Any] | None:
        model = self.server(user, server)
        return model if model and model["ready"] else None

    def server(self, user: str, server: str = "") -> dict[str, Any] | None:
        """Return the hub's model of a server, with its state; None when it is neither running nor pending."""
        model: dict[str, Any] = self.api.get(f"/users/{user}").raise_for_status().json()
        found = model["servers"].get(server)
        return found if found and (found["ready"] or found["pending"]) else None

    def stop_server(self, user: str, server: str = "") -> None:
        """Stop a server and wait until the hub has forgotten it."""
        answer = self.api.delete(_server_path(user, server))
        assert answer.status_code in (202, 204), answer.text
        until(lambda: self.server(user, server) is None, seconds=30)

    def stop_all(self) -> None:
        """Stop every server of every user and see all leases and containers gone."""
        users = self.api.get("/users", params={"state": "active"}).raise_for_status().json()
        with ThreadPoolExecutor() as pool:
            list(
                pool.map(
                    lambda each: self.stop_server(*each), [(u["name"], name) for u in users for name in u["servers"]]
                )
            )
        until(lambda: not self.containers(), why="containers are left")
        assert self.leases() == ()

    @contextlib.contextmanager
    def logged_in(self, user: str) -> Iterator[httpx.Client]:
        """A browser's session without a browser: cookies and the login form."""
        with httpx.Client(base_url=f"{self.url}/hub", timeout=60, follow_redirects=True) as session:
            page = BeautifulSoup(session.get("/login").text, "html.parser")
            token = page.find("input", attrs={"name": "_xsrf"})["value"]
            form = {"username": user, "password": self.password, "_xsrf": token}
            assert session.post("/login", data=form).status_code == httpx.codes.OK
            yield session

    def token(self, user: str) -> str:
        """Return a token with all of the user's own rights."""
        made: str = self.api.post(f"/users/{user}/tokens", json={"note": "e2e"}).raise_for_status().json()["token"]
        return made

    def notebook(self, user: str, path: str, server: str = "") -> httpx.Response:
        """Ask the user's own notebook server through the proxy."""
        folder = f"{server}/" if server else ""
        headers = {"Authorization": f"token {self.token(user)}"}
        return httpx.get(f"{self.url}/user/{user}/{folder}{path}", headers=headers, timeout=20)

    # Docker

    def containers(self) -> list[docker.models.containers.Container]:
        """Return all containers of this deployment, ended ones as well."""
        found = self.engine.containers.list(all=True, filters={"label": f"{LABEL}={self.prefix}"}, ignore_removed=True)
        return list(found)

    def container(self, user: str, server: str = "") -> docker.models.containers.Container:
        """Return the container of one server, by the session id in its label."""
        lease = self.lease(user, server)
        assert lease is not None
        (found,) = self.engine.containers.list(all=True, filters={"label": f"org.nbgpu.session={lease.session_id}"})
        return found

    def run_in(self, user: str, *command: str, server: str = "") -> tuple[int, str]:
        """Run a command in a server's container; return its exit code and output."""
        code, output = self.container(user, server).exec_run(list(command))
        return code, output.decode()

    def in_docker(self) -> list[str]:
        """Return the names of all that this deployment has in Docker."""
        containers = [each.name for each in self.engine.containers.list(all=True, ignore_removed=True)]
        networks = [each.name for each in self.engine.networks.list()]
        volumes = [each.name for each in self.engine.volumes.list()]
        return [name for name in containers + networks + volumes if name.startswith(self.prefix + "-")]

    def close(self) -> None:
        """Stop the hub, delete the deployment and see that it leaves nothing behind."""
        try:
            self.stop()
        finally:
            self.command("purge", "--yes")
            self.forget_connections()
            self.engine.close()

    def forget_connections(self) -> None:
        """Close what is open to the hub and to the database; both are opened again when they are asked."""
        if self._api is not None:
            self._api.close()
        if self._database is not None:
            self._database.dispose()
        self._api = self._database = None


D = TypeVar("D", bound=Deployment)


def _server_path(user: str, server: str) -> str:
    return f"/users/{user}/servers/{server}" if server else f"/users/{user}/server"


def disagreement(deployment: Deployment) -> str:
    """What does not fit together; empty when all does."""
    leases = {lease.session_id: lease for lease in deployment.leases()}
    containers = {each.labels["org.nbgpu.session"]: each for each in deployment.containers()}
    if set(leases) != set(containers):
        return f"leases {sorted(leases)}, containers {sorted(containers)}"
    users = deployment.api.get("/users", params={"state": "active"}).raise_for_status().json()
    servers = {
        (server.get("state") or {}).get("session_id"): server for user in users for server in user["servers"].values()
    }
    if set(servers) != set(leases) or any(server["pending"] for server in servers.values()):
        return f"leases {sorted(leases)}, servers {servers}"
    slots = [slot for lease in leases.values() for slot in lease.allocation.slots]
    if len(slots) != len(set(slots)):
        return f"a slot is held twice: {slots}"
    ended = [each.name for each in containers.values() if each.status != "running"]
    return f"ended containers {ended}" if ended else ""


def agree(deployment: Deployment, *, seconds: float = 60) -> None:
    """Wait until leases, containers and the hub agree."""
    deadline = time.monotonic() + seconds
    while (what := disagreement(deployment)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert what == ""


@contextlib.contextmanager
def deployed(data: Path, settings: Path) -> Iterator[Deployment]:
    """Run a deployment for a while; afterwards nothing of it is left, in Docker or on disk."""
    with running(Deployment(data, settings)) as deployment:
        yield deployment


@contextlib.contextmanager
def running(deployment: D) -> Iterator[D]:
    """Start a deployment, and end it so that nothing is left of it."""
    try:
        deployment.start()
        prefix = deployment.prefix
        yield deployment
    finally:
        deployment.close()
    with contextlib.closing(docker.from_env(timeout=30)) as engine:
        left = [*engine.containers.list(all=True, ignore_removed=True), *engine.networks.list(), *engine.volumes.list()]
        assert [each.name for each in left if each.name.startswith(f"{prefix}-")] == []
    assert not deployment.data.exists()
