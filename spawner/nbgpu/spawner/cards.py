"""The cards of the spawn page: what each flavor is, costs and has free, in a person's words. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from nbgpu.core.devices import Device, InventorySnapshot
from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.leases import Lease
from nbgpu.core.periods import HOUR
from nbgpu.core.texts import Text
from nbgpu.core.units import render_money, render_price, render_size
from nbgpu.spawner.idling import IdleRule
from nbgpu.spawner.stock import Stock, build_stock

KIND_TITLES = {
    FlavorKind.GPU: Text("Whole GPUs"),
    FlavorKind.MIG: Text("GPU slices (MIG)"),
    FlavorKind.SHARED: Text("Shared GPUs"),
    FlavorKind.CPU: Text("No GPU"),
}
_ISOLATION = {
    FlavorKind.GPU: Text("Yours alone."),
    FlavorKind.MIG: Text("Memory and compute of its own, parted by the hardware."),
    FlavorKind.CPU: Text("No GPU is visible."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageView:
    """An image as the page offers it."""

    slug: str
    display_name: str
    detail: str  # versions, like "Python 3.11, PyTorch 2.13, CUDA 13.0"
    built: bool
    remedy: Text  # how it can be had where it is not built


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A flavor as the page shows it."""

    slug: str
    title: str
    description: str
    kind: FlavorKind
    kind_title: Text
    device: Text | None  # "2 × NVIDIA A100, 80 GiB each"; None for a CPU flavor
    machine: Text  # "4 CPU cores, 8 GiB RAM"
    isolation: Text
    price: Text  # "1.90 USD per hour"
    time_limit: timedelta | None
    most: Text | None  # what it costs to its time limit: so much of a budget is held at the start
    stock: Stock
    stock_text: Text | None  # "2 of 3 free"
    images: tuple[str, ...]
    idle: IdleRule | None = None  # None: it is never stopped for being idle


def build_card(
    flavor: Flavor,
    inventory: InventorySnapshot,
    leases: Iterable[Lease],
    *,
    currency: str,
    time_limits: Mapping[str, timedelta | None] | None = None,
    idle: IdleRule | None = None,
) -> Card:
    """Return the card of a flavor."""
    stock = build_stock(flavor, inventory, leases, time_limits)
    return Card(
        slug=flavor.slug,
        title=flavor.display_name,
        description=flavor.description,
        kind=flavor.kind,
        kind_title=KIND_TITLES[flavor.kind],
        device=_describe_device(flavor, inventory.devices),
        machine=_describe_machine(flavor),
        isolation=_describe_isolation(flavor),
        price=describe_price(flavor.price_per_hour, currency),
        time_limit=flavor.time_limit,
        most=_describe_most(flavor, currency),
        stock=stock,
        stock_text=_describe_stock(stock),
        images=flavor.images,
        idle=idle,
    )


def describe_price(price_per_hour: int, currency: str) -> Text:
    """Return a price in micro-units as "1.90 USD per hour"."""
    return Text("%(price)s %(currency)s per hour", price=render_price(price_per_hour), currency=currency)


def _describe_most(flavor: Flavor, currency: str) -> Text | None:
    if flavor.time_limit is None or not flavor.price_per_hour:
        return None
    most = flavor.price_per_hour * int(flavor.time_limit.total_seconds()) // HOUR
    return Text("%(most)s %(currency)s at most", most=render_money(most), currency=currency)


def _describe_stock(stock: Stock) -> Text | None:
    if stock.free is None:
        return None
    return Text("%(free)s of %(capacity)s free", free=stock.free, capacity=stock.capacity)


def _describe_isolation(flavor: Flavor) -> Text:
    if flavor.kind is FlavorKind.SHARED:
        return Text("Not isolated: up to %(slots)s people take turns and share one memory.", slots=flavor.slots)
    return _ISOLATION[flavor.kind]


def _describe_machine(flavor: Flavor) -> Text:
    cores, memory = f"{flavor.cpus:g}", render_size(flavor.memory)
    if flavor.cpus == 1:
        return Text("%(cores)s CPU core, %(memory)s RAM", cores=cores, memory=memory)
    return Text("%(cores)s CPU cores, %(memory)s RAM", cores=cores, memory=memory)


def _describe_device(flavor: Flavor, devices: tuple[Device, ...]) -> Text | None:
    if flavor.kind is FlavorKind.CPU:
        return None
    device = next((device for device in devices if _is_kind(flavor, device)), None)
    if device is None:
        return Text(flavor.model or flavor.mig_profile or "GPU")
    name, memory = device.name or "GPU", render_size(device.memory_total)
    if flavor.kind is FlavorKind.MIG:
        whole = name if flavor.mig_profile and flavor.mig_profile in name else f"{name} {flavor.mig_profile}"
        return Text("%(name)s, %(memory)s", name=whole, memory=memory)
    if flavor.kind is FlavorKind.SHARED:
        return Text("1/%(slots)s of %(name)s, %(memory)s in all", slots=flavor.slots, name=name, memory=memory)
    if flavor.gpus > 1:
        return Text("%(gpus)s × %(name)s, %(memory)s each", gpus=flavor.gpus, name=name, memory=memory)
    return Text("1 × %(name)s, %(memory)s", name=name, memory=memory)


def _is_kind(flavor: Flavor, device: Device) -> bool:
    if not device.is_model(flavor.model):
        return False
    if flavor.kind is FlavorKind.MIG:
        return device.mig_profile == flavor.mig_profile
    return not device.is_mig and not device.mig_enabled


def group_cards(cards: Iterable[Card]) -> Mapping[FlavorKind, list[Card]]:
    """Return the cards by kind, kinds in the order of the menu."""
    groups: dict[FlavorKind, list[Card]] = {}
    for card in cards:
        groups.setdefault(card.kind, []).append(card)
    return groups
