"""The images for the service's page."""

from nbgpu.images.listing import ListedImage, list_image
from nbgpu.wiring.adapters import Adapters


class ServiceImages:
    """The catalogue and what of it is built."""

    def __init__(self, adapters: Adapters) -> None:
        self._adapters = adapters

    def look(self) -> tuple[ListedImage, ...] | None:
        """Return all images; None where servers are no containers. May block. Raises EngineUnavailable."""
        adapters = self._adapters
        if adapters.is_local:
            return None
        return tuple(list_image(adapters.docker, image, adapters.catalog) for image in adapters.catalog)
