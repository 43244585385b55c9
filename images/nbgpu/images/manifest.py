"""`image.toml` -> `Image`. An error names the file, the key, the value and what is allowed."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nbgpu.core.errors import ImageError

NONE = "none"  # how image.toml writes "has no such thing"
SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,28}[a-z0-9])?")
_VERSION = r"\d+(?:\.\d+)*(?:\+[a-z0-9.]+)?"
_WORDS = "one line of 1 to 200 characters"
_RULES = {
    "slug": (SLUG.pattern, "1 to 30 of a-z, 0-9 and -, the name of its folder"),
    "display_name": (r"[^\n]{1,60}", "one line of 1 to 60 characters"),
    "description": (r"[^\n]{1,200}", _WORDS),
    "base": (
        rf"debian:[a-z]+(?:-slim)?|{SLUG.pattern}",
        'a slug of the catalogue, or a Debian: "debian:bookworm-slim"',
    ),
    "python": (r"3\.\d+", 'a Python release: "3.11"'),
    "cuda": (rf"{NONE}|{_VERSION}", 'a version, or "none"'),
    "cudnn": (rf"{NONE}|{_VERSION}", 'a version, or "none"'),
    "minimum_driver": (rf"{NONE}|{_VERSION}", 'a version of NVIDIA\'s driver, or "none"'),
    "variant": (SLUG.pattern, "1 to 30 of a-z, 0-9 and -"),
}
_OPTIONAL = {"variant", "variants"}
_OVERRIDABLE = {"description", "cuda", "cudnn", "minimum_driver", "frameworks"}
_NULLABLE = {"cuda", "cudnn", "minimum_driver"}


@dataclass(frozen=True, slots=True)
class Image:
    """One image of the catalogue, in one variant. Versions are as image.toml writes them; None where it has none."""

    slug: str
    display_name: str
    description: str
    base: str  # the slug of another image, or a Debian like "debian:bookworm-slim"
    python: str
    cuda: str | None
    cudnn: str | None
    minimum_driver: str | None
    frameworks: Mapping[str, str]  # distribution name -> version
    folder: Path
    variant: str | None = None
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # the others -> what differs

    @property
    def has_catalogue_base(self) -> bool:
        """Whether it is built on another image of the catalogue rather than on a Debian."""
        return ":" not in self.base

    def in_variant(self, variant: str | None) -> "Image":
        """Return the image as its other variant describes it; None means the default. ImageError if unknown."""
        if variant is None or variant == self.variant:
            return self
        if variant not in self.variants:
            known = ", ".join(sorted({*self.variants, *([self.variant] if self.variant else [])})) or "none"
            raise ImageError(f'The image "{self.slug}" has no variant "{variant}"; it has: {known}.')
        changes = dict(self.variants[variant])
        changes["frameworks"] = MappingProxyType({**self.frameworks, **changes.get("frameworks", {})})
        return replace(self, variant=variant, **changes)


def read_image(file: Path) -> Image:
    """Read and check one image.toml. ImageError."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ImageError(f"{file}: can't be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ImageError(f"{file}: is not valid TOML: {error}.") from error
    required = {*_RULES, "frameworks"} - _OPTIONAL
    _check_keys(file, "", table, required=required, allowed=required | _OPTIONAL)
    fields = _check_values(file, "", table)
    fields["variants"] = _variants(file, table)
    if fields["slug"] != file.parent.name:
        raise _wrong(file, "slug", fields["slug"], f'the name of its folder, "{file.parent.name}"')
    return Image(folder=file.parent, **fields)


def _variants(file: Path, table: dict[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    variants = table.get("variants", {})
    if variants and "variant" not in table:
        raise ImageError(f"{file}: variant: missing; where there are variants it names the one the keys describe.")
    if not isinstance(variants, dict):
        raise _wrong(file, "variants", variants, "one table a variant")
    found = {}
    for name, changes in variants.items():
        key = f"variants.{name}"
        if SLUG.fullmatch(name) is None or not isinstance(changes, dict):
            raise _wrong(file, key, changes, f"a table; its name is {_RULES['variant'][1]}")
        _check_keys(file, f"{key}.", changes, required=set(), allowed=_OVERRIDABLE)
        found[name] = MappingProxyType(_check_values(file, f"{key}.", changes))
    return MappingProxyType(found)


def _check_keys(file: Path, prefix: str, table: dict[str, Any], *, required: set[str], allowed: set[str]) -> None:
    for key in table:
        if key not in allowed:
            raise ImageError(f"{file}: {prefix}{key}: unknown key; allowed are {', '.join(sorted(allowed))}.")
    for key in sorted(required - set(table)):
        raise ImageError(f"{file}: {prefix}{key}: missing; it must be {_RULES.get(key, ('', 'a table'))[1]}.")


def _check_values(file: Path, prefix: str, table: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in table.items():
        if key == "frameworks":
            fields[key] = _frameworks(file, prefix + key, value)
        elif key != "variants":
            pattern, allowed = _RULES[key]
            if not isinstance(value, str) or re.fullmatch(pattern, value) is None:
                raise _wrong(file, prefix + key, value, allowed)
            fields[key] = None if key in _NULLABLE and value == NONE else value
    return fields


def _frameworks(file: Path, key: str, value: object) -> Mapping[str, str]:
    allowed = 'a table of package names and versions: torch = "2.13.0"'
    if not isinstance(value, dict):
        raise _wrong(file, key, value, allowed)
    for name, version in value.items():
        if not isinstance(version, str) or re.fullmatch(_VERSION, version) is None:
            raise _wrong(file, f"{key}.{name}", version, 'a version: "2.13.0"')
    return MappingProxyType(dict(value))


def _wrong(file: Path, key: str, value: object, allowed: str) -> ImageError:
    return ImageError(f"{file}: {key}: {value!r} is not allowed; it must be {allowed}.")
