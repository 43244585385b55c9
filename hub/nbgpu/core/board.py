"""What everybody is told on every page: messages, and that there is maintenance. Pure."""

from dataclasses import dataclass

from nbgpu.core.broadcasts import Broadcast
from nbgpu.core.maintenance import Maintenance


@dataclass(frozen=True, slots=True)
class Board:
    """What holds now."""

    broadcasts: tuple[Broadcast, ...] = ()  # oldest first
    maintenance: Maintenance | None = None
