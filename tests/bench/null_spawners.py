"""Spawners without a server: what is left is the hub's own work, and ours."""

from datetime import UTC, datetime
from typing import Any

from jupyterhub.spawner import Spawner

from nbgpu.core.leases import Lease
from nbgpu.core.menu import Choice
from nbgpu.spawner.flavored import FlavoredSpawner

ADDRESS = "http://127.0.0.1:{port}"


class NullSpawner(Spawner):
    """Plain JupyterHub's part: a server that somebody else runs."""

    running = False

    async def start(self) -> tuple[str, int]:
        """Say that it runs."""
        self.running = True
        return "127.0.0.1", self.port

    async def stop(self, now: bool = False) -> None:
        """Say that it ended."""
        self.running = False

    async def poll(self) -> int | None:
        """Say whether it runs."""
        return None if self.running else 0


class NullFlavoredSpawner(FlavoredSpawner):
    """The same with all of ours: options, admission, lease, phases, turnstile, readiness."""

    running = False

    async def launch(self, lease: Lease, choice: Choice) -> str:
        """Say that it runs."""
        self.running = True
        return f"http://127.0.0.1:{self.port}"

    async def find_started_at(self) -> datetime:
        """Return now."""
        return datetime.now(UTC)

    async def find_end(self) -> str | None:
        """Say whether it runs."""
        return None if self.running else "ended"

    async def find_last_words(self) -> str:
        """Have none."""
        return ""

    async def shut_down(self, *, now: bool) -> datetime | None:
        """Say that it ended."""
        ended_at = datetime.now(UTC) if self.running else None
        self.running = False
        return ended_at

    async def take_up(self, lease: Lease) -> str | None:
        """Have nothing to take up."""
        return None

    async def clear_leftovers(self) -> dict[str, datetime | None]:
        """Leave nothing over."""
        return {}

    def get_state(self) -> dict[str, Any]:
        """Keep the port."""
        return super().get_state() | {"port": self.port}
