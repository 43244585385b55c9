"""The catalogue's images on the spawn page: which of them the deployment's engine can start."""

import math
import sys
import time
from dataclasses import replace
from pathlib import Path

from docker import DockerClient

from nbgpu.core.texts import Text
from nbgpu.images.built import describe_built, find_image_id
from nbgpu.images.catalog import Catalog
from nbgpu.images.manifest import Image
from nbgpu.spawner.cards import ImageView

LOCAL_IMAGE = "base"  # the one image whose packages the environment of local servers has

FOUND_LASTS = 2.0  # seconds


class DockerShelf:
    """The catalogue's images in the engine."""

    def __init__(self, client: DockerClient, catalog: Catalog) -> None:
        self._client = client
        self._catalog = catalog
        self._known: dict[str, tuple[float, str]] = {}  # slug -> when it was found, id

    def find_id(self, slug: str) -> str | None:
        """Return the id to start an image from, None when it is not built.

        What was found is believed for a moment: many starts at once ask Docker once. An id never changes its meaning,
        and an image that was removed meanwhile is refused by Docker itself.
        """
        found_at, known = self._known.get(slug, (-math.inf, ""))
        if time.monotonic() - found_at < FOUND_LASTS:
            return known
        found = find_image_id(self._client, slug)
        if found is not None and slug in self._catalog.images:
            self._known[slug] = (time.monotonic(), found)
        return found

    def views(self) -> tuple[ImageView, ...]:
        """Return all images as people read them: what is built by its labels, the rest by the catalogue."""
        return tuple(self._view(image) for image in self._catalog)

    def _view(self, image: Image) -> ImageView:
        built = describe_built(self._client, image)
        return ImageView(
            slug=image.slug,
            display_name=image.display_name,
            detail=describe_versions(built or image),
            built=built is not None,
            remedy=self.remedy(image.slug),
        )

    def remedy(self, slug: str) -> Text:
        """Return how an image gets built."""
        return Text("An administrator runs: nbgpu images build %(image)s", image=slug)


class LocalShelf:
    """The catalogue's images as far as they can be had without Docker: one, as an environment of this machine."""

    def __init__(self, catalog: Catalog, python: Path) -> None:
        """Take the Python of the environment that has the base image's packages."""
        self._catalog = catalog
        self._python = python

    def find_id(self, slug: str) -> str | None:
        """Return what stands for an image id: the name of the environment; None for all other images."""
        return f"local:{self._python.parent.parent.name}" if slug == LOCAL_IMAGE and self._python.exists() else None

    def views(self) -> tuple[ImageView, ...]:
        """Return all images; those that need Docker say so."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        views = []
        for image in self._catalog:
            built = self.find_id(image.slug) is not None
            here = replace(image, python=version, cuda=None, cudnn=None) if built else image
            views.append(
                ImageView(
                    slug=image.slug,
                    display_name=image.display_name,
                    detail=describe_versions(here),
                    built=built,
                    remedy=self.remedy(image.slug),
                )
            )
        return tuple(views)

    def remedy(self, slug: str) -> Text:  # noqa: ARG002 - the same for all
        """Return what it takes to have other images."""
        return Text("It needs Docker: servers are processes of this account.")


def describe_versions(image: Image) -> str:
    """Return the versions a person chooses by: "Python 3.11, torch 2.13.0, CUDA 13.0"."""
    parts = [f"Python {image.python}", *(f"{name} {version}" for name, version in image.frameworks.items())]
    parts += [f"CUDA {image.cuda}"] if image.cuda else []
    parts += [f"cuDNN {image.cudnn}"] if image.cudnn else []
    return ", ".join(parts)
