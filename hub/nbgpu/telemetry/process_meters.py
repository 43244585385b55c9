"""CPU and RAM of servers that are processes of this account: sums over each session's processes.

Network is not reported: they all share the machine's.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbgpu.core.usage import ServerReading

PROC = Path("/proc")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class _Counter:
    """The CPU time of a session: that of processes which have ended is kept in the sum."""

    ticks: int = 0
    by_process: dict[int, int] = field(default_factory=dict)

    def count(self, processes: Mapping[int, int]) -> int:
        grown = (ticks - min(ticks, self.by_process.get(pid, 0)) for pid, ticks in processes.items())
        self.ticks += sum(grown)
        self.by_process = dict(processes)
        return self.ticks


class ProcessMeters:
    """The `ServerMeters` of the local engine. RAM is what is resident, shared pages counted for each process."""

    def __init__(self, find_processes: Callable[[], Mapping[str, Sequence[int]]], proc: Path = PROC) -> None:
        """Take what returns the processes of each session; it raises EngineError."""
        self._find_processes = find_processes
        self._proc = proc
        self._counters: dict[str, _Counter] = {}

    def read(self, session_ids: Collection[str]) -> dict[str, ServerReading]:
        """Return a reading of each session that has processes. Raises EngineError."""
        found = {session: pids for session, pids in self._find_processes().items() if session in session_ids}
        self._counters = {session: self._counters.get(session, _Counter()) for session in found}
        return {session: self._read(self._counters[session], pids) for session, pids in found.items()}

    def _read(self, counter: _Counter, pids: Sequence[int]) -> ServerReading:
        stats = {pid: stat for pid in pids if (stat := self._stat(pid)) is not None}
        ticks = counter.count({pid: spent for pid, (spent, _) in stats.items()})
        return ServerReading(ticks * _TICK_NS, sum(pages for _, pages in stats.values()) * _PAGE)

    def _stat(self, pid: int) -> tuple[int, int] | None:
        """Return CPU ticks (user and system) and resident pages of a process; None when it is gone."""
        try:
            fields = (self._proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return int(fields[11]) + int(fields[12]), max(0, int(fields[21]))
