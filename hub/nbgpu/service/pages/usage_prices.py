"""What the flavors that somebody may take cost now. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.prices import PriceSheet, Tariff, device_sku, host_sku


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceLine:
    """The price of an hour of a flavor, all of it."""

    flavor: Flavor
    price: int | None  # micro-units; None where no sheet has it yet
    currency: str


def build_price_lines(flavors: Iterable[Flavor], sheet: PriceSheet, now: int) -> tuple[PriceLine, ...]:
    """Return a line a flavor, in the order given; `now` in seconds since 1970."""
    return tuple(_build(flavor, sheet, now) for flavor in flavors)


def _build(flavor: Flavor, sheet: PriceSheet, now: int) -> PriceLine:
    host = sheet.at(host_sku(flavor.slug, Tariff.ON_DEMAND), now)
    device = sheet.at(device_sku(flavor.slug, Tariff.ON_DEMAND), now) if flavor.kind is not FlavorKind.CPU else None
    count = max(1, flavor.gpus)
    if host is None or (flavor.kind is not FlavorKind.CPU and device is None):
        return PriceLine(flavor=flavor, price=None, currency="")
    devices = device.list_unit_price * count if device is not None else 0
    return PriceLine(flavor=flavor, price=host.list_unit_price + devices, currency=host.currency)
