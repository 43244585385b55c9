"""What of a flavor is free, why none is, and what frees one. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from nbgpu.core.devices import Device, InventorySnapshot
from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.leases import Lease
from nbgpu.core.placement import PoolState, Slot, count_capacity, count_free
from nbgpu.core.texts import Text, enumerate_texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """How many servers of a flavor could start now, of how many at most; None where nothing limits it."""

    free: int | None
    capacity: int | None
    problem: Text | None = None  # why none can start, as a sentence
    remedy: Text | None = None  # what would change that
    free_at: datetime | None = None  # when a time limit frees one at the latest

    @property
    def available(self) -> bool:
        """Whether one can start now."""
        return self.problem is None


def build_stock(
    flavor: Flavor,
    inventory: InventorySnapshot,
    leases: Iterable[Lease],
    time_limits: Mapping[str, timedelta | None] | None = None,
) -> Stock:
    """Count what is free of a flavor; `time_limits` by flavor tell when a lease ends at the latest."""
    leases = tuple(leases)
    free, capacity = _count(flavor, inventory, leases)
    problem, remedy = _explain(flavor, inventory, free, capacity)
    free_at = _find_free_at(flavor, inventory, leases, time_limits or {}) if problem is IN_USE else None
    return Stock(free=free, capacity=capacity, problem=problem, remedy=remedy, free_at=free_at)


def _count(flavor: Flavor, inventory: InventorySnapshot, leases: Collection[Lease]) -> tuple[int | None, int | None]:
    """How many are free, of how many."""
    taken: frozenset[Slot] = frozenset(slot for lease in leases for slot in lease.allocation.slots)
    state = PoolState(inventory.devices, taken)
    free, capacity = count_free(state, flavor.claim), count_capacity(state, flavor.claim)
    if flavor.max_servers is not None:
        running = Counter(lease.flavor for lease in leases)[flavor.slug]
        free = min(count for count in (free, max(0, flavor.max_servers - running)) if count is not None)
        capacity = min(count for count in (capacity, flavor.max_servers) if count is not None)
    return free, capacity


IN_USE = Text("All are in use.")
_WAIT = Text("One is free when somebody stops their server.")
_ASK = Text("An administrator can see more with “nbgpu gpus”.")
_NO_DEVICE = (Text("This machine has no such GPU."), Text("An administrator can add one or close this flavor."))


def _explain(
    flavor: Flavor, inventory: InventorySnapshot, free: int | None, capacity: int | None
) -> tuple[Text | None, Text | None]:
    """Why none can start, and what would change that."""
    if flavor.kind is not FlavorKind.CPU and inventory.problem is not None:
        return Text(inventory.problem), _ASK
    if capacity == 0:
        return _explain_none(flavor, inventory.devices)
    if free == 0:
        return IN_USE, _WAIT
    return None, None


def _explain_none(flavor: Flavor, devices: tuple[Device, ...]) -> tuple[Text, Text]:
    """Why the machine has none at all: a device's own problem, slices that were not made, or no such device."""
    wanted = [device for device in devices if device.is_model(flavor.model)]
    problems = [device.problem for device in wanted if device.problem is not None]
    if problems:
        return Text(problems[0]), _ASK
    if flavor.kind is FlavorKind.MIG and any(device.mig_enabled for device in wanted):
        problem = Text("The GPUs are in MIG mode, but no %(profile)s slice is configured.", profile=flavor.mig_profile)
        return problem, Text("An administrator makes slices with “nvidia-smi mig -cgi”.")
    return _NO_DEVICE


def _find_free_at(
    flavor: Flavor,
    inventory: InventorySnapshot,
    leases: tuple[Lease, ...],
    time_limits: Mapping[str, timedelta | None],
) -> datetime | None:
    """When enough time limits are over for one to be free; None where no time limit would free any."""
    rest = list(leases)
    for end, lease in sorted(_ends(leases, time_limits), key=lambda each: each[0]):
        rest.remove(lease)
        if _count(flavor, inventory, rest)[0] != 0:
            return end
    return None


def _ends(leases: Iterable[Lease], time_limits: Mapping[str, timedelta | None]) -> Iterable[tuple[datetime, Lease]]:
    for lease in leases:
        limit = time_limits.get(lease.flavor)
        if limit is not None:
            yield (lease.active_at or lease.created_at) + limit, lease


def explain_shortage(
    flavor: Flavor, flavors: Iterable[Flavor], inventory: InventorySnapshot, leases: Collection[Lease]
) -> Text:
    """Return the sentences that refuse a start: what is missing, and what could be had instead."""
    stock = build_stock(flavor, inventory, leases)
    problem = stock.problem or Text("somebody else was faster.")
    others = {
        other.display_name: build_stock(other, inventory, leases) for other in flavors if other.slug != flavor.slug
    }
    free = [_offer(name, stock) for name, stock in others.items() if stock.available]
    if not free:
        return Text(
            "No “%(flavor)s” can start now: %(problem)s Nothing else is free either. Try again later.",
            flavor=flavor.display_name,
            problem=problem,
        )
    return Text(
        "No “%(flavor)s” can start now: %(problem)s Free instead: %(offers)s. Or try again later.",
        flavor=flavor.display_name,
        problem=problem,
        offers=enumerate_texts(free),
    )


def _offer(name: str, stock: Stock) -> Text:
    if stock.free is None:
        return Text("“%(flavor)s”", flavor=name)
    return Text("“%(flavor)s” (%(count)s)", flavor=name, count=stock.free)
