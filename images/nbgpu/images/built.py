"""What is really built: images by name and label, and what their labels say is inside.

Servers are started from an image id found here, never from a string that a person gave.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from docker import DockerClient
from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException

from nbgpu.core.errors import EngineUnavailable, ImageError
from nbgpu.images.manifest import NONE, SLUG, Image

REPOSITORY = "nbgpu"
PREFIX = "org.nbgpu."
IMAGE_LABEL = f"{PREFIX}image"  # its value is the slug
INPUTS_LABEL = f"{PREFIX}inputs"  # hash of all that went into the build
SOURCES_LABEL = f"{PREFIX}sources"  # hash of the part that a checkout decides
_VERSIONS = ("python", "cuda", "cudnn", "minimum_driver")


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """One image in the engine."""

    id: str  # "sha256:…", never changes meaning
    labels: Mapping[str, str]
    size: int  # bytes, with its base's
    created_at: datetime


def image_reference(slug: str, variant: str | None = None) -> str:
    """Return an image's name in the engine: of the variant, or of what was built last. ImageError."""
    for name in (slug, variant or "latest"):
        if SLUG.fullmatch(name) is None:
            raise ImageError(f"{name!r} is no image of the catalogue: 1 to 30 of a-z, 0-9 and - are allowed.")
    return f"{REPOSITORY}/{slug}:{variant or 'latest'}"


def bare_tag(variant: str | None) -> str:
    """Return the tag of an image without the panel: what other images stand on."""
    return f"{variant}-bare" if variant else "bare"


def find_built(client: DockerClient, slug: str, variant: str | None = None) -> BuiltImage | None:
    """Return what the engine has for a slug; None if nothing that we built. EngineUnavailable, ImageError."""
    reference = image_reference(slug, variant)
    try:
        attrs: dict[str, Any] = client.images.get(reference).attrs
    except ImageNotFound:
        return None
    except (DockerException, RequestException) as error:
        raise EngineUnavailable(f"Docker was asked for the image {reference} and failed: {error}") from error
    labels = (attrs.get("Config") or {}).get("Labels") or {}
    if labels.get(IMAGE_LABEL) != slug:
        return None
    return BuiltImage(attrs["Id"], MappingProxyType(labels), attrs["Size"], datetime.fromisoformat(attrs["Created"]))


def find_image_id(client: DockerClient, slug: str) -> str | None:
    """Return the immutable id ("sha256:…") to start a server from; None if it is not built."""
    built = find_built(client, slug)
    return built.id if built else None


def describe_built(client: DockerClient, image: Image) -> Image | None:
    """Return the image as its labels say it was built (variant, versions); None if it is not built."""
    built = find_built(client, image.slug)
    return apply_labels(image, built.labels) if built else None


def build_labels(image: Image) -> dict[str, str]:
    """Return the labels that say what is inside."""
    labels = {PREFIX + key: getattr(image, key) or NONE for key in (*_VERSIONS, "variant")}
    labels |= {
        IMAGE_LABEL: image.slug,
        f"{PREFIX}frameworks": json.dumps(dict(image.frameworks), sort_keys=True),
        "org.opencontainers.image.title": image.display_name,
        "org.opencontainers.image.description": image.description,
    }
    return labels


def apply_labels(image: Image, labels: Mapping[str, str]) -> Image:
    """Return the image with what the labels say in place of what image.toml says; the reverse of `build_labels`."""
    said = {key: labels[PREFIX + key] for key in (*_VERSIONS, "variant") if PREFIX + key in labels}
    changes: dict[str, Any] = {key: None if value == NONE else value for key, value in said.items()}
    if f"{PREFIX}frameworks" in labels:
        changes["frameworks"] = MappingProxyType(json.loads(labels[f"{PREFIX}frameworks"]))
    if "org.opencontainers.image.description" in labels:
        changes["description"] = labels["org.opencontainers.image.description"]
    return replace(image, **changes)
