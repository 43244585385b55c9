"""The menu: from the options that somebody sends to the flavor and image they may have.

`user_options` arrives from the form, the REST API and `opt-` URLs, unchecked. `Menu.choose` is the one way in: it
takes any object at all and returns a choice or raises a `Refusal`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nbgpu.core.errors import InvalidOptions, NotAllowed
from nbgpu.core.flavors import Flavor
from nbgpu.core.texts import Text, enumerate_texts

FLAVOR_KEY = "profile"  # the ecosystem's word: the hub's admin page shows this option
IMAGE_KEY = "image"
OPTION_KEYS = frozenset({FLAVOR_KEY, IMAGE_KEY})
MAX_LENGTH = 64
_KEYS = Text("“%(first)s” and “%(second)s”", first=IMAGE_KEY, second=FLAVOR_KEY)


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
                Text(
                    "“%(flavor)s” has no image “%(image)s”. It starts with: %(images)s.",
                    flavor=flavor.display_name,
                    image=image,
                    images=enumerate_texts(flavor.images),
                )
            )
        return Choice(flavor, image)

    def _choose_flavor(self, slug: str | None, groups: frozenset[str]) -> Flavor:
        eligible = self.eligible(groups)
        if not eligible:
            raise NotAllowed(Text("No flavor is open to you. Ask an administrator to add you to a group that has one."))
        if not slug:
            return eligible[0]
        flavor = self._by_slug.get(slug)
        slugs = enumerate_texts(each.slug for each in eligible)
        if flavor is None:
            raise InvalidOptions(
                Text("There is no flavor “%(slug)s”. You may take: %(slugs)s.", slug=slug, slugs=slugs)
            )
        if flavor not in eligible:
            raise NotAllowed(
                Text(
                    "“%(flavor)s” is open to %(groups)s only. You may take: %(slugs)s.",
                    flavor=flavor.display_name,
                    groups=enumerate_texts(sorted(flavor.groups)),
                    slugs=slugs,
                )
            )
        return flavor


def parse_options(options: object) -> dict[str, str]:
    """Return well-formed options: known keys, short printable texts. Raises InvalidOptions."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InvalidOptions(
            Text(
                "Server options must be an object with %(keys)s; got %(type)s.",
                keys=_KEYS,
                type=type(options).__name__,
            )
        )
    unknown = [key for key in options if key not in OPTION_KEYS]
    if unknown:
        raise InvalidOptions(
            Text("Unknown server option %(key)s. Allowed: %(keys)s.", key=_show(unknown[0]), keys=_KEYS)
        )
    return {key: _text(key, value) for key, value in options.items()}


def _text(key: str, value: object) -> str:
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]  # forms and URLs send each field as a list
    if not isinstance(value, str):
        raise InvalidOptions(
            Text("Server option “%(key)s” must be one text; got %(type)s.", key=key, type=type(value).__name__)
        )
    if len(value) > MAX_LENGTH or not value.isprintable():
        raise InvalidOptions(
            Text("Server option “%(key)s” must be a slug of the menu; got %(value)s.", key=key, value=_show(value))
        )
    return value


def _show(value: object) -> str:
    """What was sent, cut short and made printable: it goes to pages and logs."""
    text = ascii(value) if not (isinstance(value, str) and value.isprintable()) else f"“{value}”"
    return text if len(text) <= MAX_LENGTH else text[:MAX_LENGTH] + "…"
