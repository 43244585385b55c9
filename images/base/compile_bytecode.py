"""Write lasting bytecode of every module under the given folders that has none: the last step of an image.

An unprivileged user can't write bytecode beside the modules, so that what is missing is compiled at each start of
a server. The files carry no time and no check ("unchecked hash"): they stay valid when a layer's times change.
Files that are no valid Python (templates, tests of the parser) are left alone.
"""

import importlib.util
import os
import py_compile
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

UNCHECKED = b"\x01\0\0\0"
MODE = py_compile.PycInvalidationMode.UNCHECKED_HASH


def sources(folder: str) -> Iterator[str]:
    """Yield the modules under a folder that have no bytecode, or one that goes by their time."""
    for path in Path(folder).rglob("*.py"):
        if path.is_file() and not is_lasting(Path(importlib.util.cache_from_source(os.fspath(path)))):
            yield os.fspath(path)


def is_lasting(compiled: Path) -> bool:
    """Whether bytecode is there and says in its header that it is not to be checked."""
    try:
        with compiled.open("rb") as file:
            return file.read(8)[4:] == UNCHECKED
    except OSError:
        return False


def compile_one(source: str) -> bool:
    """Compile one module; False where it is no valid Python."""
    try:
        py_compile.compile(source, doraise=True, quiet=2, invalidation_mode=MODE)
    except (py_compile.PyCompileError, SyntaxError, UnicodeDecodeError, ValueError):
        return False
    return True


def main(folders: list[str]) -> None:
    """Compile what the folders hold."""
    todo = sorted({source for folder in folders for source in sources(folder)})
    with ProcessPoolExecutor() as pool:
        done = sum(pool.map(compile_one, todo, chunksize=64))
    sys.stdout.write(f"compiled {done} modules, left {len(todo) - done} that are no valid Python\n")


if __name__ == "__main__":
    main(sys.argv[1:])
