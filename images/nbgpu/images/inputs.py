"""All that goes into one build, and its hash: equal inputs need no second build."""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from nbgpu.core.errors import ImageError
from nbgpu.images.manifest import Image
from nbgpu.images.options import BuildOptions
from nbgpu.images.panel_wheel import build_panel_wheel, panel_requirements

STORE = "/etc/ssl/certs/ca-certificates.crt"  # where Debian keeps what it trusts
_PIN = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:[=<>!~]|$)", re.MULTILINE)
_LEFT_OUT = {"__pycache__", ".DS_Store"}


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of the build's context (name -> content, or the path of a wheel), and the build arguments."""

    sources: Mapping[str, bytes]  # what the checkout decides
    site: Mapping[str, bytes]  # what the options decide
    wheels: Mapping[str, Path]
    arguments: Mapping[str, str]

    @property
    def sources_hash(self) -> str:
        """Hash of what the checkout decides."""
        return _hash(_digests(self.sources))

    @property
    def hash(self) -> str:
        """Hash of everything: files, arguments (the base's id is one), wheels by name and size."""
        wheels = {name: path.stat().st_size for name, path in self.wheels.items()}
        return _hash([_digests(self.sources), _digests(self.site), wheels, dict(self.arguments)])

    def write_context(self, target: IO[bytes]) -> None:
        """Write the context as a tar, the same bytes for the same inputs."""
        with tarfile.open(fileobj=target, mode="w") as archive:
            for name, content in sorted({**self.sources, **self.site}.items()):
                archive.addfile(_member(name, len(content)), io.BytesIO(content))
            for name, path in sorted(self.wheels.items()):
                with path.open("rb") as file:
                    archive.addfile(_member(f"wheels/{name}", path.stat().st_size), file)


def collect_inputs(image: Image, options: BuildOptions, base_id: str) -> Inputs:
    """Return what an image (in its variant) is built from. ImageError."""
    sources = collect_sources(image)
    dockerfile = sources["Dockerfile"].decode()
    site = {"wheels/.keep": b"", "Dockerfile.site": (dockerfile + _site_lines(image, options)).encode()}
    if options.ca_bundle is not None and not image.has_catalogue_base:
        site["ca/bundle.pem"] = options.ca_bundle.read_bytes()
    arguments = {"BASE": base_id, "PIP_INDEX_URL": options.index or ""}
    if image.variant is not None:
        arguments["VARIANT"] = image.variant
    return Inputs(sources, site, _wheels(image, options, sources), arguments)


def collect_sources(image: Image) -> dict[str, bytes]:
    """Return the files of the image's folder, and the panel's wheel where the image stands on a Debian."""
    files = {
        path.relative_to(image.folder).as_posix(): path.read_bytes()
        for path in sorted(image.folder.rglob("*"))
        if path.is_file() and not _LEFT_OUT & set(path.parts)
    }
    if "Dockerfile" not in files:
        raise ImageError(f"{image.folder}: there is no Dockerfile beside image.toml.")
    if not image.has_catalogue_base:
        name, wheel = _panel_wheel()
        files[f"panel/{name}"] = wheel
        files["panel-requirements.txt"] = "".join(f"{line}\n" for line in panel_requirements()).encode()
        files["ca/.keep"] = b""
    return files


@cache
def _panel_wheel() -> tuple[str, bytes]:
    return build_panel_wheel()


def _site_lines(image: Image, options: BuildOptions) -> str:
    """Return lines after the Dockerfile's own: people's pip and Python need at run time what the build needed."""
    if image.has_catalogue_base:
        return ""
    settings = {"PIP_INDEX_URL": options.index} if options.index else {}
    if options.ca_bundle is not None:
        settings |= dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), STORE)
    return "".join(f'\nENV {key}="{value}"' for key, value in settings.items())


def _wheels(image: Image, options: BuildOptions, sources: Mapping[str, bytes]) -> dict[str, Path]:
    """Return the wheels of the folder that this image can use: of what it pins, and of its variant."""
    if options.wheels is None:
        return {}
    texts = [content.decode() for name, content in sources.items() if name.endswith(".txt")]
    pinned = {_normal(name) for text in texts for name in _PIN.findall(text)}
    return dict(_usable(image, options.wheels, pinned))


def _usable(image: Image, folder: Path, pinned: set[str]) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.glob("*.whl")):
        name, version = path.name.split("-")[:2]
        wanted = image.frameworks.get(_normal(name))
        if _normal(name) in pinned and wanted in (None, version):
            yield path.name, path


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member
