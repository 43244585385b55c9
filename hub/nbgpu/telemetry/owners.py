"""Whose a process on a GPU is: the driver names processes by the host's ids, `/proc` says what they belong to."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

PROC = Path("/proc")
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")

Owners = Mapping[int, str | None]  # process id -> session, None: somebody else's


class ProcessOwners:
    """Finds the sessions of processes. What was found holds while a process is asked for in every turn."""

    def __init__(self, identify: Callable[[int], str | None]) -> None:
        """Take what returns the session of a process, None for others'; it raises LookupError where nobody can tell."""
        self._identify = identify
        self._known: dict[int, str | None] = {}
        self._before: dict[int, str | None] = {}

    def turn(self) -> None:
        """Begin a turn: processes that were not asked for in the last one are forgotten, as their ids may be reused."""
        self._before, self._known = self._known, {}

    def find(self, pids: Iterable[int]) -> Owners | None:
        """Return whose they are; None where that can't be told of all: a part of them would be wrong sums."""
        found: dict[int, str | None] = {}
        try:
            for pid in pids:
                found[pid] = self._before[pid] if pid in self._before else self._identify(pid)
        except LookupError:
            return None
        finally:
            self._known |= found
        return found


def container_of(pid: int, proc: Path = PROC) -> str | None:
    """Return the id of the container that a process is in (control groups of either version); None: in none.

    Raises LookupError when there is no such process: ids of another process namespace mean nothing here.
    """
    try:
        text = (proc / str(pid) / "cgroup").read_text()
    except OSError as error:
        raise LookupError(f"process {pid} can't be looked at: {error}") from error
    match = _CONTAINER_ID.search(text)
    return match[0] if match else None


def variable_of(pid: int, name: str, proc: Path = PROC) -> str | None:
    """Return a variable that a process was started with. Raises LookupError where that can't be read."""
    try:
        pairs = (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError as error:
        raise LookupError(f"process {pid} can't be looked at: {error}") from error
    prefix = name.encode() + b"="
    return next((pair.removeprefix(prefix).decode(errors="replace") for pair in pairs if pair.startswith(prefix)), None)
