"""The environment that servers run in where they are processes: what the base image brings, without the image.

It is made once for a virtual environment of nbgpu, beside the proxy. Its versions are those of images/base.
"""

import hashlib
import os
import shutil
import sys
from pathlib import Path

from nbgpu.core.errors import SetupError
from nbgpu.images.catalog import load_catalog
from nbgpu.images.panel_wheel import build_panel_wheel, panel_requirements
from nbgpu.machine.host import CommandFailed, Host
from nbgpu.machine.report import Detail

BASE = "base"
UNWANTED = ("rfc3987-syntax", "lark")  # half of a server's boot, for a format check nobody needs
_PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")


def notebook_python(cache: Path) -> Path:
    """Return the environment's Python, whether it is there or not."""
    return cache / f"notebook-{_digest(_folder())}" / "bin" / "python"


def ensure_notebook(host: Host, cache: Path, report: Detail) -> str:
    """Make the environment where it is missing, and bring the panel in it up to date. SetupError."""
    python = notebook_python(cache)
    home = python.parents[1]
    try:
        made = _ensure_packages(host, home, report)
        _ensure_panel(host, home, report)
    except CommandFailed as error:
        raise SetupError(
            f"JupyterLab could not be installed for servers that run as processes: make PyPI reachable. {error}"
        ) from error
    return f"{home} {'made' if made else 'is up to date'}"


def _ensure_packages(host: Host, home: Path, report: Detail) -> bool:
    complete = home / ".complete"  # written last: what was interrupted is made anew
    if complete.exists():
        return False
    folder = _folder()
    report("installing JupyterLab")
    shutil.rmtree(home, ignore_errors=True)
    host.run([sys.executable, "-m", "venv", os.fspath(home)], report=report)
    pip = (os.fspath(home / "bin" / "python"), *_PIP)
    constraints, requirements = os.fspath(folder / "constraints.txt"), os.fspath(folder / "requirements.txt")
    host.run([*pip, "install", "-c", constraints, "-r", requirements, *panel_requirements()], report=report)
    host.run([*pip, "uninstall", "--yes", *UNWANTED], report=report)
    shutil.copytree(folder / "etc", home / "etc" / "jupyter", dirs_exist_ok=True)
    complete.touch()
    return True


def _ensure_panel(host: Host, home: Path, report: Detail) -> None:
    """Install our own code for notebooks, which changes oftener than the rest."""
    name, wheel = build_panel_wheel()
    stamp, digest = home / ".panel", hashlib.sha256(wheel).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return
    path = home / name
    path.write_bytes(wheel)
    pip = (os.fspath(home / "bin" / "python"), *_PIP)
    host.run([*pip, "install", "--no-deps", "--no-index", "--force-reinstall", os.fspath(path)], report=report)
    path.unlink()
    stamp.write_text(digest)


def _folder() -> Path:
    return load_catalog().find(BASE).folder


def _digest(folder: Path) -> str:
    files = [folder / "requirements.txt", folder / "constraints.txt", *sorted((folder / "etc").rglob("*.json"))]
    parts = [path.read_bytes() for path in files]
    return hashlib.sha256(
        b"\0".join([*parts, sys.version.encode(), *map(str.encode, panel_requirements())])
    ).hexdigest()[:12]
