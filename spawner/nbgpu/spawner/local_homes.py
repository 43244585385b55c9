"""Home folders of servers that are processes."""

import os
import shutil
from pathlib import Path

from nbgpu.core.errors import EngineError


def make_home(home: Path) -> None:
    """Make a home that only this account can read. Idempotent. Raises EngineError."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o700)
    except OSError as error:
        raise EngineError(f"The home folder {home} can't be made: {error.strerror}.") from error


def make_mark(mark: Path) -> None:
    """Make the file that marks a home as archived. Idempotent. Raises EngineError."""
    try:
        mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.touch(mode=0o600)
    except OSError as error:
        raise EngineError(f"The home can't be marked as archived by {mark}: {error.strerror}.") from error


def delete_home(home: Path) -> None:
    """Delete a home with all files in it, in folders that a program left read-only as well. Raises EngineError."""
    try:
        for folder, _, _ in os.walk(home):
            Path(folder).chmod(0o700)  # before it is listed: top down
            for each in Path(folder).iterdir():
                if each.is_dir() and not each.is_symlink():
                    each.chmod(0o700)
        if home.exists():
            shutil.rmtree(home)
    except OSError as error:
        raise EngineError(f"The home folder {home} can't be deleted: {error}.") from error
