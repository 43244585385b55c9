"""Prices of now beside those of the menu."""

from dataclasses import replace

import pytest

from nbgpu.core.flavors import FlavorKind
from nbgpu.core.prices import ALWAYS, PriceSheet, build_prices, price_flavor
from support.site import make_flavor


def flavor(kind: FlavorKind, **fields):
    return replace(make_flavor("x", kind), price_per_hour=1_000_000, host_price_per_hour=0, **fields)


@pytest.mark.parametrize(
    ("kind", "gpus", "sku", "price", "costs"),
    [
        (FlavorKind.CPU, 0, "x:host:on-demand", 70_000, 70_000),
        (FlavorKind.MIG, 1, "x:gpu:on-demand", 600_000, 600_000),
        (FlavorKind.SHARED, 1, "x:gpu:on-demand", 600_000, 600_000),
        (FlavorKind.GPU, 2, "x:gpu:on-demand", 600_000, 1_200_000),
        (FlavorKind.GPU, 2, "x:host:on-demand", 70_000, 1_070_000),
    ],
)
def test_a_flavor_costs_what_was_set_from_then_on(kind, gpus, sku, price, costs):
    menus = flavor(kind, gpus=gpus)
    first = build_prices(menus, "USD", ALWAYS)
    later = [replace(each, list_unit_price=price, effective_from=100) for each in first if each.sku_id == sku]
    sheet = PriceSheet([*first, *later])
    assert price_flavor(menus, sheet, 99) == menus
    assert price_flavor(menus, sheet, 100) == replace(menus, price_per_hour=costs)


def test_a_price_that_does_not_divide_evenly_is_shown_as_the_menu_has_it():
    menus = flavor(FlavorKind.GPU, gpus=3)
    sheet = PriceSheet(build_prices(menus, "USD", ALWAYS))
    assert sheet.hourly("x", 3, 0) == 999_999
    assert price_flavor(menus, sheet, 0) == menus


def test_what_has_no_price_yet_costs_what_the_menu_says():
    assert price_flavor(flavor(FlavorKind.CPU), PriceSheet(()), 0).price_per_hour == 1_000_000
    assert PriceSheet(()).hourly("x", 0, 0) is None
