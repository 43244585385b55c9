"""The cards of the spawn page: what each flavor is, costs and has free, in a person's words. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from nbgpu.core.devices import Device, InventorySnapshot
from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.leases import Lease
from nbgpu.core.placement import PoolState, Slot, count_capacity, count_free
from nbgpu.core.units import render_price, render_size, render_span

KIND_TITLES = {
    FlavorKind.GPU: "Whole GPUs",
    FlavorKind.MIG: "GPU slices (MIG)",
    FlavorKind.SHARED: "Shared GPUs",
    FlavorKind.CPU: "No GPU",
}
_ISOLATION = {
    FlavorKind.GPU: "Yours alone.",
    FlavorKind.MIG: "Memory and compute of its own, parted by the hardware.",
    FlavorKind.SHARED: "Not isolated: up to {slots} people take turns and share one memory.",
    FlavorKind.CPU: "No GPU is visible.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """How many servers of a flavor could start now, of how many at most; None where nothing limits it."""

    free: int | None
    capacity: int | None
    problem: str | None = None  # why none can start, as a sentence

    @property
    def available(self) -> bool:
        """Whether one can start now."""
        return self.problem is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageView:
    """An image as the page offers it."""

    slug: str
    display_name: str
    detail: str  # versions, like "Python 3.11, PyTorch 2.13, CUDA 13.0"
    built: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A flavor as the page shows it."""

    slug: str
    title: str
    description: str
    kind: FlavorKind
    kind_title: str
    device: str  # "2 × NVIDIA A100, 80 GiB each"; empty for a CPU flavor
    machine: str  # "4 CPU cores, 8 GiB RAM"
    isolation: str
    price: str  # "1.90 USD per hour"
    time_limit: str | None  # "12 h"
    stock: Stock
    stock_text: str  # "2 of 3 free"
    images: tuple[str, ...]


def build_stock(flavor: Flavor, inventory: InventorySnapshot, leases: Iterable[Lease]) -> Stock:
    """Count what is free of a flavor."""
    leases = tuple(leases)
    taken: frozenset[Slot] = frozenset(slot for lease in leases for slot in lease.allocation.slots)
    state = PoolState(inventory.devices, taken)
    free, capacity = count_free(state, flavor.claim), count_capacity(state, flavor.claim)
    if flavor.max_servers is not None:
        running = Counter(lease.flavor for lease in leases)[flavor.slug]
        free = min(count for count in (free, max(0, flavor.max_servers - running)) if count is not None)
        capacity = min(count for count in (capacity, flavor.max_servers) if count is not None)
    return Stock(free=free, capacity=capacity, problem=_find_problem(flavor, inventory, free, capacity))


def _find_problem(flavor: Flavor, inventory: InventorySnapshot, free: int | None, capacity: int | None) -> str | None:
    if flavor.kind is not FlavorKind.CPU and inventory.problem is not None:
        return inventory.problem
    if capacity == 0:
        return _explain_none(flavor, inventory.devices)
    if free == 0:
        return "All are in use."
    return None


def _explain_none(flavor: Flavor, devices: tuple[Device, ...]) -> str:
    """Why the machine has none at all: a device's own problem, slices that were not made, or no such device."""
    wanted = [device for device in devices if (flavor.model or "").casefold() in (device.name or "").casefold()]
    problems = [device.problem for device in wanted if device.problem is not None]
    if problems:
        return problems[0]
    if flavor.kind is FlavorKind.MIG and any(device.mig_enabled for device in wanted):
        return f"The GPUs are in MIG mode, but no {flavor.mig_profile} slice is configured."
    return "This machine has no such GPU."


def build_card(flavor: Flavor, inventory: InventorySnapshot, leases: Iterable[Lease], currency: str) -> Card:
    """Return the card of a flavor."""
    stock = build_stock(flavor, inventory, leases)
    cores = f"{flavor.cpus:g} CPU core" + ("s" if flavor.cpus != 1 else "")
    return Card(
        slug=flavor.slug,
        title=flavor.display_name,
        description=flavor.description,
        kind=flavor.kind,
        kind_title=KIND_TITLES[flavor.kind],
        device=_describe_device(flavor, inventory.devices),
        machine=f"{cores}, {render_size(flavor.memory)} RAM",
        isolation=_ISOLATION[flavor.kind].format(slots=flavor.slots),
        price=f"{render_price(flavor.price_per_hour)} {currency} per hour",
        time_limit=render_span(flavor.time_limit) if flavor.time_limit else None,
        stock=stock,
        stock_text="" if stock.free is None else f"{stock.free} of {stock.capacity} free",
        images=flavor.images,
    )


def _describe_device(flavor: Flavor, devices: tuple[Device, ...]) -> str:
    if flavor.kind is FlavorKind.CPU:
        return ""
    device = next((device for device in devices if _is_kind(flavor, device)), None)
    if device is None:
        return flavor.model or flavor.mig_profile or "GPU"
    name, memory = device.name or "GPU", render_size(device.memory_total)
    if flavor.kind is FlavorKind.MIG:
        return (
            f"{name}, {memory}"
            if flavor.mig_profile and flavor.mig_profile in name
            else f"{name} {flavor.mig_profile}, {memory}"
        )
    if flavor.kind is FlavorKind.SHARED:
        return f"1/{flavor.slots} of {name}, {memory} in all"
    return f"{flavor.gpus} × {name}, {memory}" + (" each" if flavor.gpus > 1 else "")


def _is_kind(flavor: Flavor, device: Device) -> bool:
    if (flavor.model or "").casefold() not in (device.name or "").casefold():
        return False
    if flavor.kind is FlavorKind.MIG:
        return device.mig_profile == flavor.mig_profile
    return not device.is_mig and not device.mig_enabled


def explain_shortage(
    flavor: Flavor, flavors: Iterable[Flavor], inventory: InventorySnapshot, leases: Collection[Lease]
) -> str:
    """Return the sentences that refuse a start: what is missing, and what could be had instead."""
    stock = build_stock(flavor, inventory, leases)
    text = f"No “{flavor.display_name}” can start now: {stock.problem or 'somebody else was faster.'}"
    others = {
        other.display_name: build_stock(other, inventory, leases) for other in flavors if other.slug != flavor.slug
    }
    free = [_offer(name, stock) for name, stock in others.items() if stock.available]
    if not free:
        return f"{text} Nothing else is free either. Try again later."
    return f"{text} Free instead: {', '.join(free)}. Or try again later."


def _offer(name: str, stock: Stock) -> str:
    return f"“{name}”" if stock.free is None else f"“{name}” ({stock.free})"


def group_cards(cards: Iterable[Card]) -> Mapping[str, list[Card]]:
    """Return the cards by the title of their kind, kinds in the order of the menu."""
    groups: dict[str, list[Card]] = {}
    for card in cards:
        groups.setdefault(card.kind_title, []).append(card)
    return groups
