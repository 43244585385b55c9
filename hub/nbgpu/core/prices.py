"""Price sheets: what an hour of each SKU costs from when on. Pure.

A flavor has one or two SKUs a tariff: its devices, each charged by itself, and its host (CPU, RAM, disk). A CPU flavor
has only the host. The price of a flavor with GPUs is divided evenly among them, rounded down to a micro-unit.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.periods import Period

ALWAYS = 0  # the instant from which a SKU's first price holds
_UNITS = {FlavorKind.GPU: "GPU-Hours", FlavorKind.MIG: "MIG-Hours", FlavorKind.SHARED: "GPU-Slot-Hours"}
HOST_UNIT = "Server-Hours"


class Tariff(StrEnum):
    """The terms on which a flavor is had."""

    ON_DEMAND = "on-demand"
    RESERVED = "reserved"
    SPOT = "spot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What an hour of a SKU costs from `effective_from` (seconds since 1970) until its next price."""

    sku_id: str
    effective_from: int
    unit: str
    list_unit_price: int  # micro-units
    currency: str


def device_sku(flavor: str, tariff: str) -> str:
    """Return the SKU of a flavor's devices."""
    return f"{flavor}:gpu:{tariff}"


def is_device_sku(sku: str) -> bool:
    """Whether a SKU is of devices."""
    return ":gpu:" in sku


def host_sku(flavor: str, tariff: str) -> str:
    """Return the SKU of a flavor's CPU, RAM and disk."""
    return f"{flavor}:host:{tariff}"


def build_prices(flavor: Flavor, currency: str, effective_from: int, tariff: Tariff = Tariff.ON_DEMAND) -> list[Price]:
    """Return the prices of a flavor as the menu has it."""
    host = flavor.price_per_hour if flavor.kind is FlavorKind.CPU else flavor.host_price_per_hour
    skus = [(host_sku(flavor.slug, tariff), HOST_UNIT, host)]
    if flavor.kind is not FlavorKind.CPU:
        each = (flavor.price_per_hour - host) // max(1, flavor.gpus)
        skus.append((device_sku(flavor.slug, tariff), _UNITS[flavor.kind], each))
    return [
        Price(sku_id=sku, effective_from=effective_from, unit=unit, list_unit_price=price, currency=currency)
        for sku, unit, price in skus
    ]


def price_flavor(flavor: Flavor, sheet: "PriceSheet", instant: int) -> Flavor:
    """Return a flavor at the price that holds at an instant; as the menu has it where nobody has set another."""
    devices = 0 if flavor.kind is FlavorKind.CPU else max(1, flavor.gpus)
    menus = PriceSheet(build_prices(flavor, "", ALWAYS)).hourly(flavor.slug, devices, instant)
    found = sheet.hourly(flavor.slug, devices, instant)
    return flavor if found in (None, menus) else replace(flavor, price_per_hour=found)


class PriceSheet:
    """All prices there are and were, by SKU and time."""

    def __init__(self, prices: Iterable[Price]) -> None:
        """Take the prices as they were recorded: of two for the same instant the later holds."""
        by_sku: dict[str, dict[int, Price]] = {}
        for price in prices:
            by_sku.setdefault(price.sku_id, {})[price.effective_from] = price
        self._by_sku = {sku: [found[at] for at in sorted(found)] for sku, found in by_sku.items()}

    def at(self, sku_id: str, instant: int) -> Price | None:
        """Return the price that holds at an instant; the first one holds before, too. None for an unknown SKU."""
        prices = self._by_sku.get(sku_id)
        if not prices:
            return None
        return prices[max(0, bisect_right(prices, instant, key=lambda price: price.effective_from) - 1)]

    def hourly(self, flavor: str, devices: int, instant: int, tariff: str = Tariff.ON_DEMAND) -> int | None:
        """Return what an hour of a flavor with so many devices costs at an instant, in micro-units; None if unknown."""
        host, device = self.at(host_sku(flavor, tariff), instant), self.at(device_sku(flavor, tariff), instant)
        if host is None:
            return None
        return host.list_unit_price + (device.list_unit_price * devices if device is not None else 0)

    def parts(self, sku_id: str, period: Period) -> Iterator[tuple[Period, Price]]:
        """Yield the period cut where the price changes, each part with its price; nothing for an unknown SKU."""
        changes = [price.effective_from for price in self._by_sku.get(sku_id, ())]
        for part in period.split(changes):
            price = self.at(sku_id, part.start)
            if price is not None:
                yield part, price

    def current(self, instant: int) -> tuple[Price, ...]:
        """Return what holds at an instant, by SKU."""
        found = (self.at(sku, instant) for sku in sorted(self._by_sku))
        return tuple(price for price in found if price is not None)

    def coming(self, instant: int) -> tuple[Price, ...]:
        """Return what holds from a later instant on, by that."""
        found = [each for prices in self._by_sku.values() for each in prices if each.effective_from > instant]
        return tuple(sorted(found, key=lambda each: (each.effective_from, each.sku_id)))

    def __len__(self) -> int:
        return sum(map(len, self._by_sku.values()))
