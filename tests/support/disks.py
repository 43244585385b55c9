"""Small disks that fill up or turn read-only: real ones, of memory."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted disk of a few megabytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def full(self) -> Iterator[None]:
        """Fill the disk to the last byte, and empty it again."""
        ballast = self.folder / "ballast"
        with ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 4096)
            except OSError:
                pass
        yield
        ballast.unlink()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Make it read-only, and writable again."""
        _mount("-o", "remount,ro", str(self.folder))
        yield
        _mount("-o", "remount,rw", str(self.folder))


@contextmanager
def small_disk(folder: Path, *, megabytes: int = 4) -> Iterator[SmallDisk]:
    """Mount a disk on a folder; skips the test where that is not allowed."""
    folder.mkdir()
    if os.geteuid() != 0 or not _mount("-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)):
        pytest.skip("this account may not mount a small disk")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
