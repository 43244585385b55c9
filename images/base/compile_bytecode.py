"""Write the bytecode of every module under the given folders that has none: the last step of an image.

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

MODE = py_compile.PycInvalidationMode.UNCHECKED_HASH


def sources(folder: str, *, force: bool) -> Iterator[str]:
    """Yield the modules under a folder that have no bytecode (all of them with `force`)."""
    for path in Path(folder).rglob("*.py"):
        source = os.fspath(path)
        if path.is_file() and (force or not Path(importlib.util.cache_from_source(source)).exists()):
            yield source


def compile_one(source: str) -> bool:
    """Compile one module; False where it is no valid Python."""
    try:
        py_compile.compile(source, doraise=True, quiet=2, invalidation_mode=MODE)
    except (py_compile.PyCompileError, SyntaxError, UnicodeDecodeError, ValueError):
        return False
    return True


def main(arguments: list[str]) -> None:
    """Compile what the arguments name: folders, and `--force`."""
    folders = [argument for argument in arguments if not argument.startswith("--")]
    todo = sorted({s for folder in folders for s in sources(folder, force="--force" in arguments)})
    with ProcessPoolExecutor() as pool:
        done = sum(pool.map(compile_one, todo, chunksize=64))
    sys.stdout.write(f"compiled {done} modules, left {len(todo) - done} that are no valid Python\n")


if __name__ == "__main__":
    main(sys.argv[1:])
