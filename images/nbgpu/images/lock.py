"""One build of an image at a time on this machine: the second waits, and then finds it up to date."""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nbgpu.core.errors import ImageError

Report = Callable[[str], None]  # takes a line; one that starts with two spaces is a detail of the step before it

LOCK_SECONDS = 3600.0
_POLL_SECONDS = 0.5


@contextmanager
def build_lock(name: str, report: Report, *, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold the lock of one image. It ends with the process, however that ends. ImageError after `seconds`."""
    path = Path(tempfile.gettempdir(), f"nbgpu-images-{os.getuid()}-{name}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if not _try(descriptor):
            report(f"Another build of {name} is under way: waiting for it")
            _wait(descriptor, name, seconds)
        yield
    finally:
        os.close(descriptor)  # lets the lock go


def _wait(descriptor: int, name: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not _try(descriptor):
        if time.monotonic() > deadline:
            raise ImageError(f"Another build of {name} has not ended within {seconds:g} s; end it or try again later.")
        time.sleep(_POLL_SECONDS)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
