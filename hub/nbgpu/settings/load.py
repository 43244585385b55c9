"""Read nbgpu.toml. A bad file is refused whole: one line a mistake, with file, key, value and what is allowed."""

import tomllib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nbgpu.core.errors import SettingsError
from nbgpu.settings.mistakes import describe_mistake
from nbgpu.settings.schema import Settings

_NAMED = {
    "flavor": "slug",
    "budget": "name",
    "quota": "",
    "idle": "",
}  # tables of which there are many: what names each


def load(path: Path, *, images: Collection[str] | None = None) -> Settings:
    """Return the settings in `path`; with `images`, each flavor's images must be among them. Raises SettingsError."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: can't be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: is not valid TOML: {error}.") from error
    try:
        settings = Settings.model_validate(raw)
    except ValidationError as error:
        mistakes = [_render(path, raw, dict(mistake)) for mistake in error.errors(include_url=False)]
        raise SettingsError("\n".join(mistakes)) from None
    _check_images(path, settings, images)
    return settings


def _check_images(path: Path, settings: Settings, images: Collection[str] | None) -> None:
    for flavor in settings.flavor:
        for image in flavor.images:
            if images is not None and image not in images:
                raise SettingsError(
                    f'{path}: flavor "{flavor.slug}": images = "{image}": there is no such image; '
                    f"allowed: {', '.join(sorted(images))}."
                )


def _render(path: Path, raw: dict[str, Any], mistake: dict[str, Any]) -> str:
    """One mistake as "file: key = value: what is wrong; what is allowed"."""
    place = _place(raw, mistake["loc"])
    return f"{path}: {describe_mistake(place, mistake)}"


def _place(raw: dict[str, Any], location: Sequence[str | int]) -> str:
    """The key as a person finds it: a flavor or budget by its name, not by its number."""
    parts: list[str] = []
    for index, part in enumerate(location):
        if isinstance(part, int) and len(parts) == 1 and parts[0] in _NAMED:
            table = parts[0]
            entry = raw[table][part]
            name = entry.get(_NAMED[table]) if isinstance(entry, dict) else None
            parts = [f'{table} "{name}"' if isinstance(name, str) else f"{table} number {part + 1}"]
        elif isinstance(part, int):
            parts[-1] += f"[{part}]"
        elif index == len(location) - 1 or part != "function-before":
            parts.append(part)
    return ": ".join(parts) if parts else "the file"
