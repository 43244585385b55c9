"""The menu: from the options that somebody sends to the flavor and image they may have.

`user_options` arrives from the form, the REST API and `opt-` URLs, unchecked. `parse_options` is the one way in: it
takes any object at all and returns a choice or raises a `Refusal`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nbgpu.core.errors import InvalidOptions, NotAllowed
from nbgpu.core.flavors import Flavor

FLAVOR_KEY = "profile"  # the ecosystem's word: the hub's admin page shows this option
IMAGE_KEY = "image"
OPTION_KEYS = frozenset({FLAVOR_KEY, IMAGE_KEY})
MAX_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Choice:
    """A flavor and one of its images."""

    flavor: Flavor
    image: str  # slug

    def to_options(self) -> dict[str, str]:
        """Return the choice as JupyterHub's `user_options`."""
        return {FLAVOR_KEY: self.flavor.slug, IMAGE_KEY: self.image}


class Menu:
    """The site's flavors, in the order of the settings; the first one that a person may take is their default."""

    def __init__(self, flavors: Iterable[Flavor]) -> None:
        self.flavors = tuple(flavors)
        self._by_slug = {flavor.slug: flavor for flavor in self.flavors}

    def __getitem__(self, slug: str) -> Flavor:
        return self._by_slug[slug]

    def get(self, slug: str) -> Flavor | None:
        """Return the flavor of that slug, None if the menu has none."""
        return self._by_slug.get(slug)

    def eligible(self, groups: frozenset[str]) -> tuple[Flavor, ...]:
        """The flavors that a member of `groups` may take."""
        return tuple(flavor for flavor in self.flavors if flavor.allows(groups))

    def choose(self, options: object, groups: frozenset[str]) -> Choice:
        """Return what `options` (anything) asks for. Raises InvalidOptions or NotAllowed."""
        wanted = parse_options(options)
        flavor = self._choose_flavor(wanted.get(FLAVOR_KEY), groups)
        image = wanted.get(IMAGE_KEY) or flavor.images[0]
        if image not in flavor.images:
            raise InvalidOptions(
                f"“{flavor.display_name}” has no image “{image}”. It starts with: {', '.join(flavor.images)}."
            )
        return Choice(flavor, image)

    def _choose_flavor(self, slug: str | None, groups: frozenset[str]) -> Flavor:
        eligible = self.eligible(groups)
        if not eligible:
            raise NotAllowed("No flavor is open to you. Ask an administrator to add you to a group that has one.")
        if not slug:
            return eligible[0]
        flavor = self._by_slug.get(slug)
        slugs = ", ".join(each.slug for each in eligible)
        if flavor is None:
            raise InvalidOptions(f"There is no flavor “{slug}”. You may take: {slugs}.")
        if flavor not in eligible:
            raise NotAllowed(
                f"“{flavor.display_name}” is open to {', '.join(sorted(flavor.groups))} only. You may take: {slugs}."
            )
        return flavor


def parse_options(options: object) -> dict[str, str]:
    """Return well-formed options: known keys, short printable texts. Raises InvalidOptions."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InvalidOptions(f"Server options must be an object with {_keys()}; got {type(options).__name__}.")
    unknown = [key for key in options if key not in OPTION_KEYS]
    if unknown:
        raise InvalidOptions(f"Unknown server option {_show(unknown[0])}. Allowed: {_keys()}.")
    return {key: _text(key, value) for key, value in options.items()}


def _text(key: str, value: object) -> str:
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]  # forms and URLs send each field as a list
    if not isinstance(value, str):
        raise InvalidOptions(f"Server option “{key}” must be one text; got {type(value).__name__}.")
    if len(value) > MAX_LENGTH or not value.isprintable():
        raise InvalidOptions(f"Server option “{key}” must be a slug of the menu; got {_show(value)}.")
    return value


def _keys() -> str:
    return " and ".join(f"“{key}”" for key in sorted(OPTION_KEYS))


def _show(value: object) -> str:
    """What was sent, cut short and made printable: it goes to pages and logs."""
    text = ascii(value) if not (isinstance(value, str) and value.isprintable()) else f"“{value}”"
    return text if len(text) <= MAX_LENGTH else text[:MAX_LENGTH] + "…"
