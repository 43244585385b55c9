"""Servers as processes of the hub's own account: for one person trying it out, and for fast tests.

Menu, leases and pages are those of every engine. What a container gives is missing: nothing parts one server from
another or from the account's files, and RAM and the number of processes are not limited.
"""

import math
import os
import random
import socket
import sys
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from traitlets import Float, List, Unicode, default

from nbgpu.core.errors import EngineError
from nbgpu.core.leases import Lease
from nbgpu.core.menu import Choice
from nbgpu.spawner import container, names
from nbgpu.spawner.before_stop import run_locally
from nbgpu.spawner.endings import describe_last_words
from nbgpu.spawner.flavored import FlavoredSpawner
from nbgpu.spawner.local_homes import delete_home, make_home, make_mark
from nbgpu.spawner.local_processes import read_environment
from nbgpu.spawner.local_sessions import SERVER_VARIABLE, SESSION_VARIABLE, Record, Sessions
from nbgpu.spawner.threads import in_thread

_TAIL_BYTES = 4096
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_PACKAGE_VARIABLES = ("PIP_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


class LocalSpawner(FlavoredSpawner):
    """Runs each server as a process that is told of exactly the leased devices."""

    prefix = Unicode(config=True, help="What tells this deployment's processes and homes from others'.")
    folder = Unicode(config=True, help="Folder of the servers' records and logs.")
    homes = Unicode(config=True, help="Folder of the home folders.")
    python = Unicode(sys.executable, config=True, help="Python of the environment that has JupyterLab.")
    stop_timeout = Float(10, config=True, help="Seconds that a server has to end by itself.")
    before_stop_script = Unicode(config=True, help="File of what images have at /usr/local/lib/nbgpu/before-stop.")
    env_keep = List(
        Unicode(),
        ["LANG", "LC_ALL", "TZ", *_PROXY_VARIABLES, *_PACKAGE_VARIABLES],
        config=True,
        help="Variables of the hub that servers get; no other one reaches them.",
    )

    _given_ports: ClassVar[deque[int]] = deque(maxlen=256)  # two starts at once must not get the same

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lease_environment: dict[str, str] = {}

    @default("ip")
    def _default_ip(self) -> str:
        return "127.0.0.1"

    @default("cmd")
    def _default_cmd(self) -> list[str]:
        as_root = ["--ServerApp.allow_root=True"] if os.geteuid() == 0 else []
        return [self.python, "-m", "jupyterhub.singleuser", *as_root]

    @property
    def sessions(self) -> Sessions:
        """The deployment's sessions."""
        return Sessions(Path(self.folder), self.prefix)

    @property
    def slug(self) -> str:
        """This server's slug, the name of its record and log."""
        return names.server_slug(self.server_ref)

    # Start

    async def launch(self, lease: Lease, choice: Choice) -> str:
        """Start the process; return its URL."""
        name = await self.find_home(names.home_volume_name(self.prefix, self.user.name))
        home = Path(self.homes) / name
        await in_thread(make_home, home)
        self.port = _find_port(self._given_ports)
        self._lease_environment = await in_thread(self._build_environment, lease, choice, home)
        record = await in_thread(
            self.sessions.start,
            [*self.cmd, *self.get_args()],
            environment=self.get_env(),
            home=home,
            port=self.port,
            cores=choose_cores(choice.flavor.cpus),
        )
        return _url(record)

    def _build_environment(self, lease: Lease, choice: Choice, home: Path) -> dict[str, str]:
        programs = str(Path(self.python).parent)
        return {
            **container.build_environment(choice.flavor, lease, self.desk.devices(lease)),
            **self.desk.grant(lease).environment,
            container.SERVICE_VARIABLE: self.service_url,
            SERVER_VARIABLE: self.slug,
            SESSION_VARIABLE: lease.session_id,
            container.NOTICE_VARIABLE: str(self.sessions.notice_path(self.slug)),
            "HOME": str(home),
            "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        }

    def get_env(self) -> dict[str, str]:
        """Return the server's environment; what the lease says comes last and wins."""
        return {**super().get_env(), **self._lease_environment}

    async def find_started_at(self) -> datetime:
        """Return when the keeper started the server."""
        record = await self._own_record()
        if record is None:
            raise EngineError("The server's process is gone.")
        return datetime.fromtimestamp(record.started_at, UTC)

    # State

    async def _own_record(self) -> Record | None:
        """Return this server's record if it is of the running session."""
        record = await in_thread(self.sessions.read, self.slug)
        return record if record is not None and record.session_id == self.session_id else None

    async def find_end(self) -> str | None:
        """Return None while the process runs, else why it ended, with its last words."""
        record = await self._own_record()
        if record is not None and await in_thread(self.sessions.is_alive, record):
            return None
        record = await self._own_record()  # once more: the keeper writes the end and then ends
        end = "The server's process is gone." if record is None else describe_end(record.exit_code)
        return f"{end} {await self.find_last_words()}".strip()

    async def find_last_words(self) -> str:
        """Return the server's last log lines, cut and printable."""
        return describe_last_words(await in_thread(_read_tail, self.sessions.log_path(self.slug)))

    # End

    async def run_before_stop(self, seconds: float) -> None:
        """Run what the images have as theirs, as a process of the session."""
        record = await self._own_record()
        if record is None or not self.before_stop_script:
            return
        environment = await in_thread(read_environment, record.pid)
        await run_locally(Path(self.before_stop_script), environment, seconds, name=self._log_name)

    async def shut_down(self, *, now: bool) -> datetime | None:
        """End the session with all its processes and see them gone; return its end, where known. Idempotent."""
        if not self.session_id:
            return None
        return await in_thread(self.sessions.end, self.session_id, grace=0 if now else self.stop_timeout)

    async def take_up(self, lease: Lease) -> str | None:
        """Take up the process of an open lease where it still runs; return its URL, else None."""
        record = await in_thread(self.sessions.read, self.slug)
        if record is None or record.session_id != lease.session_id:
            return None
        if not await in_thread(self.sessions.is_alive, record):
            return None
        # The server keeps the token it was started with; the hub registers that one again.
        token = await in_thread(self.sessions.read_variable, record, "JUPYTERHUB_API_TOKEN")
        if token:
            self.api_token = token
        return _url(record)

    async def remove_home(self, volume: str) -> None:
        """Delete a home folder with all files in it. Idempotent."""
        await in_thread(delete_home, Path(self.homes) / volume)

    async def mark_archived(self, volume: str) -> None:
        """Mark a home folder by a file beside all homes. Idempotent."""
        await in_thread(make_mark, self._mark(volume))

    async def is_archived(self, volume: str) -> bool:
        """Whether a home folder is marked so."""
        return await in_thread(self._mark(volume).exists)

    def _mark(self, volume: str) -> Path:
        return Path(self.homes).with_name("archived-homes") / volume

    async def clear_leftovers(self) -> dict[str, datetime | None]:
        """End what an earlier life of this server left."""
        ends: dict[str, datetime | None] = {}
        for session_id in await in_thread(self.sessions.of_server, self.slug):
            self.log.warning("Ending session %s, left over by an earlier start of %s", session_id, self._log_name)
            ends[session_id] = await in_thread(self.sessions.end, session_id)
        return ends


def choose_cores(wanted: float) -> tuple[int, ...]:
    """Return as many CPU cores as a flavor has, of those that this process may use, at random; at least one."""
    usable = sorted(os.sched_getaffinity(0))
    count = max(1, min(len(usable), math.ceil(wanted)))
    return tuple(sorted(random.sample(usable, count)))


def describe_end(exit_code: int | None) -> str:
    """Return why a server ended, from its exit code; negative is the signal that ended it."""
    if exit_code is None:
        return "The server was killed from outside."
    if exit_code == -9:
        return "The server was killed, by somebody or because memory ran out."
    return f"The server ended with {f'signal {-exit_code}' if exit_code < 0 else f'exit code {exit_code}'}."


def _find_port(given: deque[int]) -> int:
    """Return a free port on loopback that was not given lately."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port not in given:
            given.append(port)
            return port


def _read_tail(path: Path) -> bytes:
    """Return the end of a log; the log before it counts when this one has just begun."""
    tail = b""
    for each in (path.with_name(f"{path.name}.1"), path):
        try:
            with each.open("rb") as file:
                file.seek(max(0, each.stat().st_size - _TAIL_BYTES))
                tail += file.read()
        except OSError:
            continue
    return tail[-_TAIL_BYTES:]


def _url(record: Record) -> str:
    return f"http://127.0.0.1:{record.port}"
