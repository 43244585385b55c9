"""Compiling the simulated driver's library with the machine's C compiler, once for each change of its sources."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from nbgpu.core.errors import SetupError

LIBRARY_NAME = "libnvidia-ml.so.1"  # also its SONAME: what pynvml and other tools load
SOURCES = Path(__file__).parent
# C11 and no _GNU_SOURCE: a newer glibc would else bind strtoull and sscanf to symbols that Debian 12 lacks.
FLAGS = ("-shared", "-fPIC", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O2", "-pthread", "-fvisibility=hidden")
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def ensure_library(folder: Path) -> Path:
    """Return `folder`/libnvidia-ml.so.1, compiled when it is missing or was made from other sources.

    The library carries the hash of its sources, so one rename replaces library and hash together and two processes
    may do this at once. Raises SetupError without a compiler, or with its complaint.
    """
    library = folder / LIBRARY_NAME
    digest = _digest()
    if library.is_file() and digest.encode() in library.read_bytes():
        return library
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as scratch:
        draft = Path(scratch) / LIBRARY_NAME
        _compile(draft, digest)
        draft.chmod(0o755)  # containers read it as any uid
        draft.replace(library)
    return library


def _digest() -> str:
    """Return the hash of the sources and flags, in hexadecimal."""
    parts = [path.read_bytes() for path in sorted(SOURCES.glob("*.[ch]"))]
    return hashlib.sha256(b"\0".join([*parts, " ".join(FLAGS).encode()])).hexdigest()


def _compile(output: Path, digest: str) -> None:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SetupError(
            "The simulated GPU driver needs a C compiler and this machine has none: "
            "install gcc: apt-get install gcc libc6-dev"
        )
    sources = [str(path) for path in sorted(SOURCES.glob("*.c"))]
    command = [compiler, *FLAGS, *WARNINGS, f'-DSOURCE_HASH="{digest}"', f"-Wl,-soname,{LIBRARY_NAME}"]
    try:
        done = subprocess.run([*command, "-o", str(output), *sources], capture_output=True, text=True, check=False)
    except OSError as error:
        raise SetupError(
            f"The C compiler {compiler} can't be run ({error}): install gcc: apt-get install gcc libc6-dev"
        ) from error
    if done.returncode:
        raise SetupError(
            f"The simulated GPU driver can't be compiled with {compiler}; if headers are missing, install gcc: "
            f"apt-get install gcc libc6-dev. The compiler said: {done.stderr.strip()[-500:]}"
        )
