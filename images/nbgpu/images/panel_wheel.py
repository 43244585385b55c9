"""The wheel of our own code that user images get: the panel and what it imports, and nothing of the hub.

Built by hand from the files of this very package, so that it works from a checkout and from an installed nbgpu
alike, needs no build tool, and gives the same bytes for the same files.
"""

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from nbgpu.core.errors import ImageError

PACKAGES = ("nbgpu.core", "nbgpu.nvml", "nbgpu.panel")  # what nbgpu.panel imports of ours
_LEFT_OUT = {"__pycache__", "node_modules"}
_PANEL = re.compile(r"extra\s*==\s*.panel.")
_PREFIX = "nbgpu/panel/prefix/"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time a zip can hold


def panel_requirements() -> tuple[str, ...]:
    """Return what the extra [panel] asks for."""
    requirements = (text.partition(";") for text in metadata.requires("nbgpu") or ())
    return tuple(sorted(asked.strip() for asked, _, marker in requirements if _PANEL.search(marker)))


def build_panel_wheel() -> tuple[str, bytes]:
    """Return the wheel's file name and content. ImageError where a package of ours is missing."""
    version = metadata.version("nbgpu")
    info = f"nbgpu-{version}.dist-info"
    files = dict(_sources())
    files |= {f"nbgpu-{version}.data/data/{name}": content for name, content in _shared_data(files)}
    lines = ["Metadata-Version: 2.1", "Name: nbgpu", f"Version: {version}", *_requires(), ""]
    files[f"{info}/METADATA"] = "\n".join(lines).encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: nbgpu\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{name},{_digest(files[name])},{len(files[name])}\n" for name in sorted(files))
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    return f"nbgpu-{version}-py3-none-any.whl", _zip(files)


def _requires() -> list[str]:
    return ["Provides-Extra: panel", *(f'Requires-Dist: {r}; extra == "panel"' for r in panel_requirements())]


def _sources() -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ImageError(f"The package {package} is missing from this installation; install nbgpu again.")
        for folder in map(Path, spec.submodule_search_locations):
            for path in sorted(folder.rglob("*")):
                inner = path.relative_to(folder)
                if path.is_file() and not _LEFT_OUT & set(inner.parts) and path.suffix not in (".pyc", ".so"):
                    yield f"{package.replace('.', '/')}/{inner.as_posix()}", path.read_bytes()


def _shared_data(files: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield what Jupyter looks for under an environment's own folder: that the panel's extensions are there."""
    for name, content in files.items():
        if name.startswith(_PREFIX):
            yield name.removeprefix(_PREFIX), content


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _zip(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            member = zipfile.ZipInfo(name, _EPOCH)
            member.external_attr = 0o644 << 16
            archive.writestr(member, files[name], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
