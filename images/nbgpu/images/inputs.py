"""All that goes into one build, and its hash: equal inputs need no second build."""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
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
COMPLETE = Path(__file__).with_name("complete.Dockerfile")
_LEFT_OUT = {"__pycache__", ".DS_Store"}


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of the build's context (name -> content, or the path of a wheel), and the build arguments."""

    files: Mapping[str, bytes]
    wheels: Mapping[str, Path]
    arguments: Mapping[str, str]

    @property
    def hash(self) -> str:
        """Hash of everything: files, arguments (the base's id is one), wheels by name and size."""
        wheels = {name: path.stat().st_size for name, path in self.wheels.items()}
        return _hash([_digests(self.files), wheels, dict(self.arguments)])

    def write_context(self, target: IO[bytes]) -> None:
        """Write the context as a tar, the same bytes for the same inputs."""
        with tarfile.open(fileobj=target, mode="w") as archive:
            for name, content in sorted(self.files.items()):
                archive.addfile(_member(name, len(content)), io.BytesIO(content))
            for name, path in sorted(self.wheels.items()):
                with path.open("rb") as file:
                    archive.addfile(_member(f"wheels/{name}", path.stat().st_size), file)


def bare_inputs(image: Image, options: BuildOptions, base_id: str) -> Inputs:
    """Return what an image (in its variant) is built from, but for what `complete_inputs` adds. ImageError."""
    files = _folder_files(image)
    wheels = _wheels(image, options, files)
    files["wheels/.keep"] = b""
    if not image.has_catalogue_base:
        files["panel-requirements.txt"] = "".join(f"{line}\n" for line in panel_requirements()).encode()
        files["ca/.keep"] = b""
        if options.ca_bundle is not None:
            files["ca/bundle.pem"] = options.ca_bundle.read_bytes()
    arguments = {"BASE": base_id, "PIP_INDEX_URL": options.index or ""}
    if image.variant is not None:
        arguments["VARIANT"] = image.variant
    return Inputs(files, wheels, arguments)


def complete_inputs(options: BuildOptions, bare_id: str) -> Inputs:
    """Return what makes a bare image complete: the panel and the site's settings."""
    dockerfile = COMPLETE.read_text(encoding="utf-8") + _site_lines(options)
    name, wheel = _panel_wheel()
    return Inputs({"Dockerfile": dockerfile.encode(), f"panel/{name}": wheel}, {}, {"BASE": bare_id})


def sources_hash(chain: Iterable[Image]) -> str:
    """Hash of what the checkout decides: the folders of an image and of all it stands on, and the panel."""
    return _hash([*(_digests(_folder_files(image)) for image in chain), _digests(dict([_panel_wheel()]))])


def _folder_files(image: Image) -> dict[str, bytes]:
    files = {
        path.relative_to(image.folder).as_posix(): path.read_bytes()
        for path in sorted(image.folder.rglob("*"))
        if path.is_file() and not _LEFT_OUT & set(path.parts)
    }
    if "Dockerfile" not in files:
        raise ImageError(f"{image.folder}: there is no Dockerfile beside image.toml.")
    return files


@cache
def _panel_wheel() -> tuple[str, bytes]:
    return build_panel_wheel()


def _site_lines(options: BuildOptions) -> str:
    """Return lines for the Dockerfile's end: people's pip and Python need at run time what the build needed."""
    settings = {"PIP_INDEX_URL": options.index} if options.index else {}
    if options.ca_bundle is not None:
        settings |= dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), STORE)
    return "".join(f'ENV {key}="{value}"\n' for key, value in settings.items())


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
