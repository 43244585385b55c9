"""What a running server is told: a file in it, and a signal to those of its programs that wait for one.

The file is JSON: `text` for people, `stop_at` (ISO 8601, null when the stop was called off) and `cause`. The signal is
SIGUSR1, and only programs that have a handler for it get it: it ends no program that knows nothing of it.
"""

import io
import json
import os
import signal
import tarfile
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

from docker.errors import APIError

from nbgpu.core.errors import EngineError
from nbgpu.spawner.container import DEPLOYMENT_LABEL, NOTICE_FILE, SESSION_LABEL
from nbgpu.spawner.docker_calls import call, to_engine_error
from nbgpu.spawner.local_processes import PROC
from nbgpu.spawner.local_sessions import Sessions

SIGNAL = signal.SIGUSR1
# SigCgt of /proc/PID/status: the signals that a program catches, bit n - 1 for signal n.
_SIGNAL_SCRIPT = f"""
for folder in /proc/[0-9]*; do
  pid=${{folder#/proc/}}
  caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' "$folder/status" 2>/dev/null)
  if [ "$pid" -gt 1 ] && [ -n "$caught" ] && [ $(( 0x$caught >> {SIGNAL - 1} & 1 )) = 1 ]; then
    kill -{SIGNAL.value} "$pid" 2>/dev/null
  fi
done
true
"""


class DockerNotices:
    """Tells servers that are containers of one deployment."""

    def __init__(self, client: Any, deployment: str) -> None:
        """Take a `docker.APIClient` and the value of the deployment label."""
        self._client = client
        self._deployment = deployment

    def deliver(self, session_id: str, text: str, stop_at: datetime | None, cause: str | None) -> bool:
        """Put the notice into a session's container and signal its programs; False when it does not run.

        Without `stop_at` it is that an earlier notice is called off. Raises EngineError.
        """
        content = build_notice(text, stop_at, cause)
        labels = [f"{DEPLOYMENT_LABEL}={self._deployment}", f"{SESSION_LABEL}={session_id}"]
        try:
            found = call(self._client, "containers", filters={"label": labels})
            for each in found:
                self._put(each["Id"], content)
                self._signal(each["Id"])
        except APIError as error:
            raise to_engine_error(error) from error
        return bool(found)

    def _put(self, container_id: str, content: bytes) -> None:
        root, *parts = NOTICE_FILE.removeprefix("/").split("/")
        call(self._client, "put_archive", container_id, f"/{root}", _pack("/".join(parts), content))

    def _signal(self, container_id: str) -> None:
        made = call(self._client, "exec_create", container_id, ["/bin/sh", "-c", _SIGNAL_SCRIPT])
        call(self._client, "exec_start", made["Id"])


class LocalNotices:
    """Tells servers that are processes of this account."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def deliver(self, session_id: str, text: str, stop_at: datetime | None, cause: str | None) -> bool:
        """Write the notice to a session's file and signal its programs; False when it does not run."""
        record = next((each for each in self._sessions.records() if each.session_id == session_id), None)
        pids = self._sessions.processes().get(session_id, [])
        if record is None or not pids:
            return False
        file = self._sessions.notice_path(record.server)
        draft = file.with_suffix(".draft")
        try:
            draft.write_bytes(build_notice(text, stop_at, cause))
            draft.replace(file)
        except OSError as error:
            raise EngineError(f"The notice of {record.server} could not be written: {error}.") from error
        _signal_waiting(pid for pid in pids if pid != record.pid)
        return True


def build_notice(text: str, stop_at: datetime | None, cause: str | None) -> bytes:
    """Return the file's content."""
    content = {"text": text, "stop_at": stop_at.isoformat() if stop_at is not None else None, "cause": cause}
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"


def _signal_waiting(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(OSError, StopIteration, ValueError):  # it ended meanwhile
            status = (PROC / str(pid) / "status").read_text(errors="replace").splitlines()
            caught = next(line for line in status if line.startswith("SigCgt:")).split()[1]
            if int(caught, 16) >> (SIGNAL - 1) & 1:
                os.kill(pid, SIGNAL)


def _pack(name: str, content: bytes) -> bytes:
    """Return a tar archive with a file that all may read, and its folder."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        folder = tarfile.TarInfo(name.rpartition("/")[0])
        folder.type, folder.mode, folder.mtime = tarfile.DIRTYPE, 0o755, int(time.time())
        file = tarfile.TarInfo(name)
        file.mode, file.size, file.mtime = 0o644, len(content), int(time.time())
        tar.addfile(folder)
        tar.addfile(file, io.BytesIO(content))
    return archive.getvalue()
