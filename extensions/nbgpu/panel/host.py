"""What this container, or machine, uses of CPU, memory and /dev/shm, from the kernel's files (cgroup v2, v1, /proc)."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
PROC = Path("/proc")
SHM = Path("/dev/shm")  # noqa: S108  # it is what is measured


@dataclass(frozen=True, slots=True)
class HostSample:
    """One reading; each field is None on its own where the kernel does not tell."""

    cpu_used: float | None = None  # cores, since the reading before
    cpu_limit: float | None = None  # cores
    memory_used: int | None = None  # bytes, without what the kernel caches and can drop
    memory_total: int | None = None  # bytes
    shm_used: int | None = None  # bytes
    shm_total: int | None = None  # bytes


class HostReader:
    """Reads the kernel's files. CPU is a rate, so the first reading has none."""

    def __init__(
        self,
        *,
        cgroup: Path = CGROUP,
        proc: Path = PROC,
        shm: Path = SHM,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cgroup = cgroup
        self._proc = proc
        self._shm = shm
        self._now_s = now_s
        self._before: tuple[float, float] | None = None  # when, CPU seconds

    def read(self) -> HostSample:
        """Return one reading. Never raises."""
        machine_total, machine_used = self._machine_memory()
        limit = _first(self._number("memory.max"), self._number("memory/memory.limit_in_bytes"))
        group_used = self._group_memory()
        shm_used, shm_total = self._shm_space()
        return HostSample(
            cpu_used=self._cpu_rate(),
            cpu_limit=self._cpu_limit(),
            memory_used=machine_used if group_used is None else group_used,
            memory_total=min((each for each in (limit, machine_total) if each is not None), default=None),
            shm_used=shm_used,
            shm_total=shm_total,
        )

    def _cpu_rate(self) -> float | None:
        at, seconds, before = self._now_s(), self._cpu_seconds(), self._before
        if seconds is None:
            return None
        self._before = (at, seconds)
        if before is None or at <= before[0]:
            return None
        return max(0.0, (seconds - before[1]) / (at - before[0]))

    def _cpu_seconds(self) -> float | None:
        microseconds = _pairs(self._text("cpu.stat")).get("usage_usec")
        if microseconds is not None:
            return microseconds / 1e6
        nanoseconds = self._number("cpuacct/cpuacct.usage")
        return self._machine_cpu_seconds() if nanoseconds is None else nanoseconds / 1e9

    def _machine_cpu_seconds(self) -> float | None:
        """Return the machine's busy time: user, nice, system, irq, softirq and steal of the first line."""
        words = _read(f"{self._proc}/stat").partition("\n")[0].split()[1:9]
        if len(words) < 8 or not all(word.isdigit() for word in words):
            return None
        return sum(int(word) for index, word in enumerate(words) if index not in (3, 4)) / os.sysconf("SC_CLK_TCK")

    def _cpu_limit(self) -> float:
        quota, _, period = self._text("cpu.max").strip().partition(" ")
        if not quota:
            quota, period = self._text("cpu/cpu.cfs_quota_us").strip(), self._text("cpu/cpu.cfs_period_us").strip()
        cores = float(len(os.sched_getaffinity(0)))
        if quota.isdigit() and period.isdigit() and int(period):
            return min(cores, int(quota) / int(period))
        return cores

    def _group_memory(self) -> int | None:
        used, lines = self._number("memory.current"), _pairs(self._text("memory.stat"))
        inactive = lines.get("inactive_file")
        if used is None:
            used = self._number("memory/memory.usage_in_bytes")
            inactive = _pairs(self._text("memory/memory.stat")).get("total_inactive_file")
        return None if used is None else max(0, used - (inactive or 0))

    def _machine_memory(self) -> tuple[int | None, int | None]:
        """Return total and used bytes of the machine."""
        lines = _pairs(_read(f"{self._proc}/meminfo").replace(":", "").replace(" kB", ""))
        total, available = lines.get("MemTotal"), lines.get("MemAvailable")
        if total is None:
            return None, None
        return total * 1024, None if available is None else (total - available) * 1024

    def _shm_space(self) -> tuple[int | None, int | None]:
        try:
            found = os.statvfs(self._shm)
        except OSError:
            return None, None
        return (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_blocks * found.f_frsize

    def _text(self, name: str) -> str:
        return _read(f"{self._cgroup}/{name}")

    def _number(self, name: str) -> int | None:
        """Return a file's number; "max" is None."""
        word = self._text(name).strip()
        return int(word) if word.isdigit() else None


def _first(one: int | None, other: int | None) -> int | None:
    return other if one is None else one


def _read(path: str) -> str:
    """Return a file's text; one that is not there, or not for us, is empty. Ten a second: pathlib costs a multiple."""
    try:
        with open(path, errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def _pairs(text: str) -> dict[str, int]:
    """Return the numbers of lines such as "usage_usec 123"."""
    words = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}
