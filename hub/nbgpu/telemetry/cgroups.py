"""CPU, RAM and network of containers from the kernel's files (control groups of either version), not from Docker."""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nbgpu.core.errors import EngineError
from nbgpu.core.usage import ServerReading
from nbgpu.telemetry.known_containers import KnownContainers
from nbgpu.telemetry.network import read_network

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")

Groups = dict[str, Path]  # controller ("" in version 2) -> folder


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a container is to be read."""

    pid: int  # its first process
    groups: Groups  # empty where there are none that we can read


class CgroupMeters:
    """The `ServerMeters` of containers. One whose group can't be found is asked of the engine."""

    def __init__(
        self,
        containers: KnownContainers,
        *,
        find_pid: Callable[[str], int | None],
        ask_engine: Callable[[str], ServerReading | None],
        proc: Path = PROC,
        cgroups: Path = CGROUPS,
    ) -> None:
        """Take what returns a container's first process, and what the engine itself counts; both raise EngineError."""
        self._containers = containers
        self._find_pid = find_pid
        self._ask_engine = ask_engine
        self._proc = proc
        self._cgroups = cgroups
        self._places: dict[str, _Place] = {}  # by container

    def read(self, session_ids: Collection[str]) -> dict[str, ServerReading]:
        """Return a reading of each session that has a container. Raises EngineError where none of them is known."""
        ids = self._containers.ids_of(session_ids)
        self._places = {each: place for each, place in self._places.items() if each in ids.values()}
        readings = ((session, self._read(container)) for session, container in ids.items())
        return {session: reading for session, reading in readings if reading is not None}

    def _read(self, container: str) -> ServerReading | None:
        with suppress(EngineError):  # it is away: what we need it for is left for later
            if container not in self._places:
                pid = self._find_pid(container)
                if not pid:
                    return None  # it has ended
                self._places[container] = _Place(pid, find_groups(pid, self._proc, self._cgroups))
            if not self._places[container].groups:
                return self._ask_engine(container)
        place = self._places.get(container)
        reading = read_groups(place.groups) if place is not None else ServerReading()
        if place is None or reading == ServerReading():
            self._places.pop(container, None)  # it has ended, or was moved
            return None
        return replace(reading, network=read_network(place.pid, self._proc))


def find_groups(pid: int, proc: Path = PROC, cgroups: Path = CGROUPS) -> Groups:
    """Return the folders of a process's groups that count CPU and memory; empty where they can't be seen from here."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return {}
    found: Groups = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            folder = cgroups / name / path.lstrip("/") if name else cgroups / path.lstrip("/")
            if name in ("", "cpuacct", "memory") and path != "/" and folder.is_dir():
                found[name] = folder
    return found


def read_groups(groups: Groups) -> ServerReading:
    """Return what the groups count; what can't be read is None."""
    if "cpuacct" in groups or "memory" in groups:
        return ServerReading(
            _number(groups.get("cpuacct"), "cpuacct.usage"),
            _ram(groups.get("memory"), "memory.usage_in_bytes", "total_inactive_file"),
        )
    unified = groups.get("")
    usage = _entry(unified, "cpu.stat", "usage_usec")
    return ServerReading(None if usage is None else usage * 1000, _ram(unified, "memory.current", "inactive_file"))


def _ram(folder: Path | None, file: str, droppable: str) -> int | None:
    """Return what is in use without the file cache that the kernel drops when it needs room, as `docker stats` does."""
    used = _number(folder, file)
    return None if used is None else max(0, used - (_entry(folder, "memory.stat", droppable) or 0))


def _number(folder: Path | None, file: str) -> int | None:
    if folder is None:
        return None
    try:
        return int((folder / file).read_text())
    except (OSError, ValueError):
        return None


def _entry(folder: Path | None, file: str, key: str) -> int | None:
    if folder is None:
        return None
    try:
        text = (folder / file).read_text()
        return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{key} ")), None)
    except (OSError, ValueError, IndexError):
        return None
