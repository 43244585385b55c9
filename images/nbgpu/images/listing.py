"""The catalogue as people read it: what each image brings, and whether it is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from docker import DockerClient

from nbgpu.images.builder import image_state
from nbgpu.images.built import apply_labels, find_built
from nbgpu.images.catalog import Catalog
from nbgpu.images.manifest import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedImage:
    """One image: what is built where it is, else what would be."""

    slug: str
    display_name: str
    description: str
    variant: str | None
    python: str | None
    cuda: str | None
    cudnn: str | None
    minimum_driver: str | None
    frameworks: Mapping[str, str]  # version by name
    state: str  # one of builder.STATES
    id: str | None  # "sha256:…"
    size_bytes: int | None
    built_at: datetime | None

    @property
    def brings(self) -> list[str]:
        """What is inside, like "torch 2.13.0"."""
        found = [f"{name} {version}" for name, version in self.frameworks.items()]
        return [*found, f"CUDA {self.cuda}"] if self.cuda else found


def list_image(client: DockerClient, image: Image, catalog: Catalog) -> ListedImage:
    """Return one image of the catalogue. Raises EngineUnavailable."""
    built = find_built(client, image.slug)
    shown = apply_labels(image, built.labels) if built else image
    return ListedImage(
        slug=image.slug,
        display_name=image.display_name,
        description=shown.description,
        variant=shown.variant,
        python=shown.python,
        cuda=shown.cuda,
        cudnn=shown.cudnn,
        minimum_driver=shown.minimum_driver,
        frameworks=dict(shown.frameworks),
        state=image_state(client, image, catalog),
        id=built.id if built else None,
        size_bytes=built.size if built else None,
        built_at=built.created_at if built else None,
    )
