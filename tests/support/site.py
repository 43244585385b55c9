"""A deployment for tests: real spawners, desk and lease database; engine, devices and images that the test decides."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from traitlets.config import Config

from nbgpu.core.devices import Device, InventorySnapshot, UsageSample
from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.menu import Menu
from nbgpu.core.texts import Text
from nbgpu.spawner.cards import ImageView
from nbgpu.spawner.desk import Desk
from nbgpu.spawner.device_access import DeviceAccess, ToolkitAccess
from nbgpu.spawner.docker import GPUDockerSpawner
from nbgpu.spawner.flavored import FlavoredSpawner
from nbgpu.spawner.turnstile import Turnstile
from nbgpu.store import SqlAuditLog, SqlHomes, SqlLeaseStore, open_database
from nbgpu.store.prices import SqlPrices
from support.fake_docker import FakeDockerClient
from support.users import Users

PREFIX = "nbgpu-test00"


class FixedInventory:
    """Devices that a test decides."""

    def __init__(self, devices: tuple[Device, ...]) -> None:
        self.devices = devices
        self.problem: str | None = None

    def snapshot(self) -> InventorySnapshot:
        devices = () if self.problem else self.devices
        return InventorySnapshot(datetime.now(UTC), devices, problem=self.problem)

    def sample(self) -> tuple[UsageSample, ...]:
        return ()


class Shelf:
    """Images that a test decides: slug to id."""

    def __init__(self, **ids: str) -> None:
        self.ids = ids

    def find_id(self, slug: str) -> str | None:
        return self.ids.get(slug)

    def remedy(self, slug: str) -> Text:
        return Text("An administrator runs: nbgpu images build %(image)s", image=slug)

    def views(self) -> tuple[ImageView, ...]:
        slugs = dict.fromkeys([*self.ids, "pytorch"])
        return tuple(
            ImageView(
                slug=slug,
                display_name=slug.title(),
                detail="Python 3.11",
                built=slug in self.ids,
                remedy=self.remedy(slug),
            )
            for slug in slugs
        )


def make_flavor(slug: str, kind: FlavorKind, **fields: object) -> Flavor:
    """A flavor with small limits."""
    defaults: dict[str, object] = {
        "display_name": slug.upper(),
        "cpus": 2,
        "memory": 2**30,
        "shm": 2**28,
        "pids": 200,
        "images": ("base", "pytorch"),
        "price_per_hour": 600_000,
        "gpus": 0 if kind is FlavorKind.CPU else 1,
    }
    return Flavor(slug=slug, kind=kind, **(defaults | fields))


FLAVORS = (
    make_flavor("cpu", FlavorKind.CPU),
    make_flavor("one", FlavorKind.GPU),
    make_flavor("two", FlavorKind.GPU, gpus=2),
    make_flavor("shared", FlavorKind.SHARED, slots=4),
    make_flavor("staff", FlavorKind.GPU, groups=frozenset({"staff"})),
)


@dataclass
class Site:
    """All parts of a test's deployment."""

    users: Users
    docker: FakeDockerClient
    leases: SqlLeaseStore
    inventory: FixedInventory
    shelf: Shelf
    desk: Desk

    def close(self) -> None:
        """End what runs and close the databases."""
        self.users.close()
        self.leases.close()
        if isinstance(self.docker, FakeDockerClient):
            self.docker.close()


def build_site(
    folder: Path,
    client: Any,
    /,
    *,
    gpus: int,
    prefix: str = PREFIX,
    spawner: type[FlavoredSpawner] = GPUDockerSpawner,
    access: DeviceAccess | None = None,
    **config: object,
) -> Site:
    """Return a site with that many GPUs on an engine's client (None: the spawner needs none); `config` is its own."""
    devices = tuple(
        Device(uuid=f"GPU-{number}", index=number, name="NVIDIA A100", memory_total=80 * 2**30)
        for number in range(gpus)
    )
    engine = open_database(f"sqlite:///{folder / 'leases.sqlite'}")
    leases = SqlLeaseStore(engine)
    inventory, shelf = FixedInventory(devices), Shelf(base="sha256:base")
    desk = Desk(
        menu=Menu(FLAVORS),
        leases=leases,
        homes=SqlHomes(engine),
        audit=SqlAuditLog(engine),
        inventory=inventory,
        access=access or ToolkitAccess(),
        images=shelf,
        currency="USD",
        turnstile=Turnstile(8),
        prices=SqlPrices(engine),
    )
    defaults = {"get_desk": lambda: desk, "prefix": prefix, "launch_timeout": 20}
    c = Config()
    c[spawner.__name__] = Config(defaults | ({"network_name": "net", "port": 8888} if client else {}) | config)

    # A class of its own: DockerSpawner keeps its client and threads on the class.
    spawner_class = type(spawner.__name__, (spawner,), {"_client": client, "_pool": None, "_deaths": None})
    return Site(Users(spawner_class, c), client, leases, inventory, shelf, desk)


async def until(condition, *, seconds: float = 5) -> None:
    """Wait for a condition that other tasks bring about."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the condition is another thread's
            await asyncio.sleep(0.005)
