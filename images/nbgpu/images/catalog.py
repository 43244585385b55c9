"""The catalogue: the images that can be built and started, one folder an image."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nbgpu.core.errors import ImageError
from nbgpu.images.manifest import Image, read_image

MANIFEST = "image.toml"
_CHECKOUT = Path(__file__).parents[2]  # images/ of a checkout
_INSTALLED = Path(sys.prefix, "share", "nbgpu", "images")


@dataclass(frozen=True, slots=True)
class Catalog:
    """Images by slug, bases before what is built on them."""

    images: Mapping[str, Image]

    def __iter__(self) -> Iterator[Image]:
        return iter(self.images.values())

    def find(self, slug: str) -> Image:
        """Return the image of a slug. ImageError says which there are."""
        if slug not in self.images:
            known = ", ".join(self.images) or "none"
            raise ImageError(f'There is no image "{slug}" in the catalogue; it has: {known}.')
        return self.images[slug]

    def with_bases(self, slugs: Iterable[str]) -> list[Image]:
        """Return the images of the slugs and all they stand on, in the order in which to build them. ImageError."""
        wanted: set[str] = set()
        for slug in slugs:
            image = self.find(slug)
            wanted.add(image.slug)
            while image.has_catalogue_base:
                image = self.find(image.base)
                wanted.add(image.slug)
        return [image for image in self if image.slug in wanted]


def image_folders() -> tuple[Path, ...]:
    """Return where images are looked for: the checkout's `images/` where we run from one, else what is installed."""
    return (_CHECKOUT,) if any(_CHECKOUT.glob(f"*/{MANIFEST}")) else (_INSTALLED,)


def load_catalog(folders: Iterable[Path] | None = None) -> Catalog:
    """Read every `<folder>/<slug>/image.toml`; of two with one slug the first folder's wins. ImageError."""
    found: dict[str, Image] = {}
    for folder in image_folders() if folders is None else folders:
        for file in sorted(folder.glob(f"*/{MANIFEST}")):
            image = read_image(file)
            found.setdefault(image.slug, image)
    return Catalog({image.slug: image for image in _bases_first(found)})


def _bases_first(found: Mapping[str, Image]) -> list[Image]:
    ordered: dict[str, Image] = {}
    waiting = dict(found)
    while waiting:
        ready = [i for i in waiting.values() if not i.has_catalogue_base or i.base in ordered]
        if not ready:
            image = next(iter(waiting.values()))
            known = ", ".join(sorted({*found} - {image.slug})) or "none"
            raise ImageError(
                f"{image.folder / MANIFEST}: base: {image.base!r} leads to no Debian; it must be "
                f'"debian:bookworm-slim" or an image that stands on one: {known}.'
            )
        for image in ready:
            ordered[image.slug] = waiting.pop(image.slug)
    return list(ordered.values())
