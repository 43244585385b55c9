"""Whose processes are on a device: ours, as far as that can be told from here.

The driver gives process ids of the host. In a container they mean nothing: another process may have the same number
there. So names are looked up only where /proc is the host's.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nbgpu.core.devices import GpuProcess

PROC = Path("/proc")
_INITIAL = "pid:[4026531836]"  # the kernel's fixed number of the first PID namespace (PROC_PID_INIT_INO)


@dataclass(frozen=True, slots=True)
class OwnProcess:
    """A process on a device. `pid` is the host's."""

    pid: int
    memory_used: int | None = None  # bytes
    name: str | None = None  # None: not known here


def sees_host_processes(proc: Path = PROC) -> bool:
    """Whether process ids of the host mean the same here."""
    try:
        return str((proc / "self/ns/pid").readlink()) == _INITIAL
    except OSError:
        return False


def own_processes(
    listed: Iterable[GpuProcess] | None, *, shared: bool, on_host: bool, proc: Path = PROC
) -> tuple[OwnProcess, ...] | None:
    """Return our processes of those that the driver lists; None where that can't be told.

    A device that is ours alone has only ours on it. On a shared one, and beside other people on a machine, a process
    is ours if /proc says so: others' are never shown.
    """
    if listed is None or (shared and not on_host):
        return None
    if not on_host:
        return tuple(OwnProcess(each.pid, each.memory_used) for each in listed)
    owners = [(each, _owner(proc / str(each.pid))) for each in listed]
    return tuple(
        OwnProcess(each.pid, each.memory_used, _name(proc / str(each.pid)))
        for each, owner in owners
        if owner == os.getuid() or (owner is None and not shared)
    )


def _owner(folder: Path) -> int | None:
    try:
        return folder.stat().st_uid
    except OSError:
        return None


def _name(folder: Path) -> str | None:
    try:
        return (folder / "comm").read_text(errors="replace").strip() or None
    except OSError:
        return None
