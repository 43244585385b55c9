"""What a container received and sent, from the kernel's counters of its own network namespace: one file."""

from pathlib import Path

PROC = Path("/proc")
_LOOPBACK = "lo"
_RECEIVED, _SENT = 0, 8  # columns of net/dev after the name


def read_network(pid: int, proc: Path = PROC) -> int | None:
    """Return the bytes in and out of the namespace of a process, without loopback; None where it can't be read.

    Only for a process that has a namespace of its own: others show the whole machine's.
    """
    try:
        lines = (proc / str(pid) / "net" / "dev").read_text().splitlines()
        devices = [line.split(":", 1) for line in lines if ":" in line]
        moved = [_moved(counters.split()) for name, counters in devices if name.strip() != _LOOPBACK]
    except (OSError, ValueError, IndexError):
        return None
    return sum(moved) if devices else None


def _moved(counters: list[str]) -> int:
    return int(counters[_RECEIVED]) + int(counters[_SENT])
