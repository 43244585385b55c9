"""Processes of this machine as Linux's /proc shows them, told apart by what they are: process ids are reused."""

import os
from collections.abc import Iterator
from pathlib import Path

from nbgpu.core.errors import EngineUnavailable

PROC = Path("/proc")


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when there is none, or only its exit status.

    Raises EngineUnavailable when /proc can't be read.
    """
    try:
        fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except ProcessLookupError:
        return None
    except FileNotFoundError as error:
        if (PROC / "self").exists():
            return None
        raise EngineUnavailable(f"The system can't list its processes: {PROC} is empty") from error
    except OSError as error:
        raise EngineUnavailable(f"The system can't say whether process {pid} runs: {error}") from error
    return None if fields[0] in "ZX" else int(fields[19])


def read_environment(pid: int) -> dict[str, str]:
    """Return the variables that a process was started with; none for what is gone or another account's."""
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (each.partition("=") for each in os.fsdecode(raw).split("\0"))
    return {name: value for name, separator, value in pairs if separator}


def processes_with(variable: str, value: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the running processes that were started with this variable, with all their variables.

    Children inherit variables, whoever their parent is now. Raises EngineUnavailable when /proc can't be read.
    """
    try:
        pids = [int(path.name) for path in PROC.iterdir() if path.name.isdecimal()]
    except OSError as error:
        raise EngineUnavailable(f"The system can't list its processes: {error}") from error
    for pid in pids:
        environment = read_environment(pid)
        if environment.get(variable) == value and start_ticks(pid) is not None:
            yield pid, environment
