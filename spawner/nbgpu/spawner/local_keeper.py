"""Keeps one server that runs as a process: `python -I -S local_keeper.py SPEC COMMAND…`.

It is to the local engine what a container's shim is to Docker: it outlives the hub, keeps the server's output in a
log of bounded size, and writes down how the server ended. SPEC is JSON: the paths `record` and `log`, `log_bytes`,
`cores` (CPU cores to run on, a list) and `identity`, which is copied to the record. Standard library only.

Its output closes, with nothing said, once the record is written and the server was started; else it says why not.
"""

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1  # linux/prctl.h
NICENESS = 5  # the hub and the proxy come first
OOM_SCORE = 500  # of 1000: when memory runs out, the kernel takes notebooks before the hub


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Replace the record in one step; only this account may read it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(record, file)
    draft.replace(path)


class BoundedLog:
    """A log file and the one before it, each of at most `limit` bytes (and one write)."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path, self._limit = path, limit
        path.with_name(f"{path.name}.1").unlink(missing_ok=True)
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._size = 0

    def write(self, data: bytes) -> None:
        """Add output. A full disk loses output and never stops the server."""
        with suppress(OSError):
            if self._size >= self._limit:
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
                full = self._file
                self._open()
                os.close(full)
            self._size += os.write(self._file, data)


def _limit_child() -> None:
    """Run between fork and exec: the server does not outlive its keeper, and writes no core dumps."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_self(cores: list[int]) -> None:
    """Take what any account may set on itself; the server inherits it. What the system refuses is left as it is."""
    with suppress(OSError):
        os.nice(NICENESS)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    with suppress(OSError):
        os.sched_setaffinity(0, cores)


def _start_ticks() -> int:
    return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])


def _keep(server: "subprocess.Popen[bytes]", log: BoundedLog) -> int:
    """Pass output to the log and SIGTERM to the server until it ends; return its exit code."""
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: server.send_signal(signal.SIGTERM))
    output = server.stdout.fileno() if server.stdout is not None else -1
    os.set_blocking(output, False)
    sources = [output, woken]
    while server.poll() is None:
        for source in select.select(sources, [], [], 60)[0]:
            data = os.read(source, 65536)
            if source == output:
                log.write(data)
                if not data:  # it closed its output and goes on
                    sources.remove(output)
    with suppress(BlockingIOError):  # a kernel that lives on may hold the pipe: take what is there
        while data := os.read(output, 65536):
            log.write(data)
    return server.returncode


def main(spec: dict[str, Any], command: list[str]) -> None:
    """Write the record, start the server, let the starter go, and keep the server."""
    _limit_self(spec["cores"])
    try:
        log = BoundedLog(Path(spec["log"]), spec["log_bytes"])
        record = {**spec["identity"], "pid": os.getpid(), "ticks": _start_ticks(), "started_at": time.time()}
        write_record(Path(spec["record"]), record)
        server = subprocess.Popen(  # the command is the site's, never a user's
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=_limit_child,  # safe: there is one thread
        )
    except OSError as error:
        raise SystemExit(str(error)) from error
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    code = _keep(server, log)
    write_record(Path(spec["record"]), {**record, "exit_code": code, "ended_at": time.time()})


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
