"""How to build: what differs from site to site, and what the machine's pip configuration says about that."""

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nbgpu.core.errors import ImageError


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """`variant` is for images that have one by that name. ImageError for paths that are not there."""

    variant: str | None = None
    wheels: Path | None = None  # a folder of .whl files, preferred to the index
    index: str | None = None  # URL of a package index mirror
    ca_bundle: Path | None = None  # PEM; installed into the images' trust store
    refresh_base: bool = False  # fetch or bootstrap Debian again

    def __post_init__(self) -> None:
        if self.wheels is not None and not self.wheels.is_dir():
            raise ImageError(f"--wheels: {self.wheels} is no folder; it must be one with .whl files.")
        if self.ca_bundle is not None and not _is_pem(self.ca_bundle):
            raise ImageError(f"--ca-bundle: {self.ca_bundle} is no PEM file with certificates.")
        if self.index is not None:
            _check_index(self.index)

    def but(self, **changes: Any) -> "BuildOptions":
        """Return the options with some of them changed."""
        return replace(self, **changes)


def default_options(environ: Mapping[str, str] | None = None) -> BuildOptions:
    """Return the machine's own: the CA bundle and the index that pip is configured with, where it is."""
    configured = pip_configuration(os.environ if environ is None else environ)
    bundle = Path(configured["cert"]) if "cert" in configured else None
    index = configured.get("index-url")
    usable = index is not None and urlsplit(index).scheme in ("http", "https") and "@" not in index
    return BuildOptions(
        ca_bundle=bundle if bundle is not None and _is_pem(bundle) else None, index=index if usable else None
    )


def pip_configuration(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what pip would use of `cert` and `index-url`: its files, the later winning, then the environment."""
    parser = configparser.RawConfigParser(strict=False)
    for file in _pip_files(environ):
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError, OSError):
            continue  # pip itself will say so; ours is a default that the options override
    found = {}
    for key, variable in (("cert", "PIP_CERT"), ("index-url", "PIP_INDEX_URL")):
        value = environ.get(variable) or parser.get("global", key, fallback="")
        if value:
            found[key] = value
    return found


def _pip_files(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("PIP_CONFIG_FILE") == os.devnull:
        return
    for folder in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep):
        yield Path(folder, "pip", "pip.conf")
    yield Path("/etc/pip.conf")
    home = Path(environ.get("HOME", "/nonexistent"))
    yield home / ".pip" / "pip.conf"
    yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config", "pip", "pip.conf")
    yield Path(sys.prefix, "pip.conf")
    if environ.get("PIP_CONFIG_FILE"):
        yield Path(environ["PIP_CONFIG_FILE"])


def _check_index(index: str) -> None:
    parts = urlsplit(index)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ImageError(f"--index: {index!r} is not allowed; it must be an http(s) URL of a package index.")
    if parts.username or parts.password:
        raise ImageError("--index: the URL has a password, which everyone could read in the image; use one without.")


def _is_pem(file: Path) -> bool:
    try:
        return b"-----BEGIN CERTIFICATE-----" in file.read_bytes()
    except OSError:
        return False
