"""What a process that runs beside the hub does: it ends with the hub, and one of it runs for a deployment."""

import ctypes
import fcntl
import os
import signal
import time
from pathlib import Path
from typing import IO

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_the_hub(parent: int) -> None:
    """Have the kernel end us when the hub dies, however it does; 0 is no hub."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if parent and os.getppid() != parent:
        raise SystemExit(1)  # it died before the kernel knew to tell us


def take_file_lock(path: Path, *, seconds: float) -> IO[str] | None:
    """Take the right that goes with a file, as an open file; None where another process keeps it for so long."""
    file = path.open("w")
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                file.close()
                return None
            time.sleep(0.1)
        else:
            return file
