"""The machine's clock that nobody steps: seconds since boot, with the name of the boot they count from."""

import time
from dataclasses import dataclass
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Uptime:
    """Milliseconds since a boot; of two with the same `boot_id` the difference is real time, across processes, too."""

    milliseconds: int
    boot_id: str


def read_uptime() -> Uptime:
    """Return the uptime now."""
    return Uptime(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000, _BOOT_ID.read_text().strip())
