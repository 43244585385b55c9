"""Gather the files of a folder that are newer than a mark, by hard links, so that a build stage can hand on just them.

For images on top of the base: install in a stage, gather, and copy what was gathered. The wheels and caches that the
stage used stay behind. Usage: stage_new_files.py FOLDER MARK TARGET
"""

import os
import stat
import sys
from pathlib import Path


def main(folder: Path, mark: Path, target: Path) -> None:
    """Link each file under `folder` whose inode changed since `mark` did to the same path under `target`."""
    since = mark.stat().st_ctime_ns
    count = 0
    for path in folder.rglob("*"):
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode) or status.st_ctime_ns < since:
            continue
        place = target / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, place, follow_symlinks=False)
        count += 1
    sys.stdout.write(f"gathered {count} files\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
