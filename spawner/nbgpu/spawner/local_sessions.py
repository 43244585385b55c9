"""The sessions of one deployment that run as processes: where they are written down, whether they live, their end.

Each server has a record, `servers/<server slug>.json`, that its keeper writes (see local_keeper.py). A record alone
proves nothing: a process counts only if its environment names this deployment and the session.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nbgpu.core.errors import EngineError, EngineUnavailable
from nbgpu.core.reconcile import ContainerFact
from nbgpu.spawner.local_processes import processes_with, read_environment, start_ticks

DEPLOYMENT_VARIABLE = "NBGPU_DEPLOYMENT"
SESSION_VARIABLE = "NBGPU_SESSION_ID"
SERVER_VARIABLE = "NBGPU_SERVER"  # the server's slug

LOG_BYTES = 1_000_000  # a file; two are kept
KILL_SECONDS = 5.0  # for the kernel to take away what was killed
_START_SECONDS = 20
_INTERVAL = 0.05
_CHILDREN: dict[int, "subprocess.Popen[bytes]"] = {}  # the keepers that this process has started
_KEEPER = Path(__file__).with_name("local_keeper.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the keeper wrote down of its server."""

    session_id: str
    server: str
    port: int
    pid: int  # the keeper's
    ticks: int  # its start, in clock ticks since boot
    started_at: float  # seconds since 1970
    exit_code: int | None = None  # of the server; negative for a signal
    ended_at: float | None = None  # when the server ended, seconds since 1970; None while it runs or nobody saw it


class Sessions:
    """Starts, finds and ends sessions. Every method blocks: use a thread. Also the reconciler's `Fleet`."""

    def __init__(self, folder: Path, deployment: str, *, grace: float = 0) -> None:
        """Take the folder of the records and what identifies the deployment; `end` waits `grace` seconds by itself."""
        self.folder = folder
        self._deployment = deployment
        self._grace = grace

    def record_path(self, server: str) -> Path:
        """Return where the record of a server (its slug) is."""
        return self.folder / f"{server}.json"

    def log_path(self, server: str) -> Path:
        """Return where the output of a server (its slug) is."""
        return self.folder / f"{server}.log"

    def notice_path(self, server: str) -> Path:
        """Return where a server (its slug) is told of its stop."""
        return self.folder / f"{server}.notice"

    # Start

    def start(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        home: Path,
        port: int,
        cores: Sequence[int],
    ) -> Record:
        """Start a server; its record is written when this returns. Raises EngineError."""
        server = environment[SERVER_VARIABLE]
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        identity = {"session_id": environment[SESSION_VARIABLE], "server": server, "port": port}
        paths = {"record": str(self.record_path(server)), "log": str(self.log_path(server))}
        spec = json.dumps({**paths, "log_bytes": LOG_BYTES, "cores": list(cores), "identity": identity})
        try:
            keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_KEEPER), spec, *command],
                env={**environment, DEPLOYMENT_VARIABLE: self._deployment},
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # neither the hub's end nor a terminal's Ctrl-C reaches it
            )
        except OSError as error:
            raise EngineError(f"The server's process could not be started: {error}.") from error
        _CHILDREN[keeper.pid] = keeper
        complaint = _hear_out(keeper)
        record = self.read(server)
        if complaint or record is None:
            raise EngineError(f"The server's process could not be started: {complaint[-300:]}.")
        return record

    # Find

    def read(self, server: str) -> Record | None:
        """Return the record of a server; None without one. Raises EngineUnavailable when it can't be read."""
        return _read(self.record_path(server))

    def records(self) -> tuple[Record, ...]:
        """Return all records. Raises EngineUnavailable."""
        found = (_read(path) for path in sorted(self.folder.glob("*.json")))
        return tuple(record for record in found if record is not None)

    def is_alive(self, record: Record) -> bool:
        """Whether the record's keeper runs: the process id, its start and its variables must all agree."""
        if start_ticks(record.pid) != record.ticks:
            return False
        return self._is_ours(read_environment(record.pid), record.session_id)

    def _is_ours(self, environment: Mapping[str, str], session_id: str) -> bool:
        found = environment.get(DEPLOYMENT_VARIABLE), environment.get(SESSION_VARIABLE)
        return found == (self._deployment, session_id)

    def read_variable(self, record: Record, name: str) -> str | None:
        """Return a variable that the server was started with."""
        return read_environment(record.pid).get(name)

    def processes(self) -> dict[str, list[int]]:
        """Return the running processes of each session that has any."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for pid, environment in processes_with(DEPLOYMENT_VARIABLE, self._deployment):
            if session_id := environment.get(SESSION_VARIABLE):
                found[session_id].append(pid)
        return dict(found)

    def containers(self) -> tuple[ContainerFact, ...]:
        """Return all sessions that have a record or a process. Raises EngineUnavailable."""
        records = {record.session_id: record for record in self.records()}
        alive = {each for each, record in records.items() if self.is_alive(record)}
        lost = {each for each in self.processes() if each not in records}  # their record was deleted
        return tuple(
            ContainerFact(
                id=each,
                session_id=each,
                running=each in alive | lost,
                finished_at=None if each in alive | lost else _time(records[each].ended_at),
            )
            for each in {*records, *lost}
        )

    def find(self, session_id: str) -> ContainerFact | None:
        """Return what there is of a session. Raises EngineUnavailable."""
        return next((each for each in self.containers() if each.session_id == session_id), None)

    def of_server(self, server: str) -> set[str]:
        """Return all sessions of a server (its slug) that have a record or a process."""
        record = self.read(server)
        found = {record.session_id} if record is not None else set()
        for _, environment in processes_with(DEPLOYMENT_VARIABLE, self._deployment):
            if environment.get(SERVER_VARIABLE) == server and SESSION_VARIABLE in environment:
                found.add(environment[SESSION_VARIABLE])
        return found

    # End

    def end(self, session_id: str, *, grace: float | None = None) -> datetime | None:
        """End a session and all it started, and see it gone; return when it ended, None where nobody saw it.

        The server has `grace` seconds to end by itself; then everything of the session is killed. Idempotent. Raises
        EngineError.
        """
        record = next((each for each in self.records() if each.session_id == session_id), None)
        seconds = self._grace if grace is None else grace
        if record is not None and seconds > 0:
            self._ask_to_end(record, seconds)
        killed_at = self._kill(session_id)
        _reap()
        # Read again: meanwhile the server may have got its next session, whose record must stay.
        record = next((each for each in self.records() if each.session_id == session_id), None)
        if record is not None:
            self.record_path(record.server).unlink(missing_ok=True)
            self.notice_path(record.server).unlink(missing_ok=True)
        return killed_at or _time(record.ended_at if record is not None else None)

    def _ask_to_end(self, record: Record, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        if self.is_alive(record):
            _signal(record.pid, signal.SIGTERM)
        while self.is_alive(record) and time.monotonic() < deadline:
            time.sleep(_INTERVAL)

    def _kill(self, session_id: str) -> datetime | None:
        """Kill all processes of a session; return when the last was gone, None when there were none."""
        deadline = time.monotonic() + KILL_SECONDS
        killed = False
        while pids := self.processes().get(session_id):
            if time.monotonic() > deadline:
                raise EngineError(f"Processes {pids} of session {session_id} can't be ended; try again in a minute.")
            for pid in pids:
                _signal(pid, signal.SIGKILL)
            killed = True
            time.sleep(_INTERVAL)
        return datetime.now(UTC) if killed else None


def _hear_out(keeper: "subprocess.Popen[bytes]") -> str:
    """Return what a keeper says before it closes its output: nothing when its server was started."""
    said = b""
    with keeper.stdout or open(os.devnull, "rb") as output:  # noqa: PTH123  # for the type only
        while select.select([output], [], [], _START_SECONDS)[0]:
            data = os.read(output.fileno(), 4096)
            if not data:
                return said.decode(errors="replace").strip()
            said += data
    keeper.kill()
    return f"it was not within {_START_SECONDS} s"


def _time(seconds: float | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None else None


def _reap() -> None:
    """Take the exit statuses of keepers that have ended; those of an earlier hub are init's."""
    for pid, keeper in list(_CHILDREN.items()):
        if keeper.poll() is not None:
            _CHILDREN.pop(pid, None)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it ended meanwhile: that is what we want
        os.kill(pid, number)


def _read(path: Path) -> Record | None:
    try:
        return Record(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise EngineUnavailable(f"{path} can't be read, so nothing is known of its server: {error}") from error
