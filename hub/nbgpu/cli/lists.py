"""`nbgpu flavors` and `nbgpu leases`: what is free, who holds what since when."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbgpu.cli.output import JsonOption, print_json, print_table
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption
from nbgpu.core.units import render_span

if TYPE_CHECKING:
    from nbgpu.core.leases import Lease
    from nbgpu.spawner.cards import Card
    from nbgpu.wiring.adapters import Adapters


def flavors(*, data: DataOption = DEFAULT_DATA, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the menu with what is free now."""
    from nbgpu.core.periods import to_seconds
    from nbgpu.core.prices import price_flavor
    from nbgpu.spawner.cards import build_card

    site = open_site(data, config)
    snapshot, leases = site.inventory.snapshot(), site.leases.open_leases()
    currency = site.settings.billing.currency
    sheet, now = site.prices.sheet(), to_seconds(site.clock())
    priced = [price_flavor(flavor, sheet, now) for flavor in site.menu.flavors]
    cards = [build_card(flavor, snapshot, leases, currency=currency) for flavor in priced]
    if as_json:
        print_json([_plain_card(card) for card in cards])
        return
    print_table(
        ["Flavor", "Name", "Kind", "Device", "Machine", "Price", "Free"],
        [
            [
                card.slug,
                card.title,
                card.kind,
                str(card.device or "none"),
                str(card.machine),
                str(card.price),
                str(card.stock.problem or card.stock_text or "no limit"),
            ]
            for card in cards
        ],
        empty="The menu is empty.",
    )


def leases(*, data: DataOption = DEFAULT_DATA, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List who holds which devices since when."""
    found = open_site(data, config).leases.open_leases()
    if as_json:
        print_json([_plain_lease(lease) for lease in found])
        return
    print_table(
        ["Server", "Flavor", "Image", "State", "Since", "Devices"],
        [
            [
                show_user_text(str(lease.server)),
                lease.flavor,
                lease.image,
                lease.state,
                show_time(lease.active_at or lease.created_at),
                "\n".join(_show_slots(lease)) or "none",
            ]
            for lease in found
        ],
        empty="No server runs: nothing is leased.",
    )


def open_site(data: Path, config: Path | None) -> "Adapters":
    """Return the adapters of an existing deployment. Raises SetupError or SettingsError."""
    from nbgpu.core.errors import SetupError
    from nbgpu.machine.serve import find_settings
    from nbgpu.machine.teardown import find_deployment
    from nbgpu.settings import load
    from nbgpu.wiring.adapters import Adapters

    deployment = find_deployment(data.resolve())
    if deployment is None:
        raise SetupError(f"There is no deployment in {data}: start one with `nbgpu run --data {data}`.")
    return Adapters(deployment, load(find_settings(config)))


def find_holders(leases: Iterable["Lease"]) -> defaultdict[str, list[str]]:
    """Return who holds each device, by UUID; a shared one has several."""
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for lease in leases:
        for uuid in lease.allocation.device_uuids:
            holders[uuid].append(str(lease.server))
    return holders


def show_time(instant: datetime) -> str:
    """Return an instant in this machine's zone, with the zone."""
    return instant.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def show_user_text(text: str) -> str:
    """Return a user's own text safe for a terminal."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _plain_card(card: "Card") -> dict[str, Any]:
    limit = render_span(card.time_limit) if card.time_limit else None
    return _shallow(card) | {"stock": _shallow(card.stock), "time_limit": limit}


def _shallow(record: Any) -> dict[str, Any]:
    """A dataclass as a dict, its fields as they are: texts print as English."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _plain_lease(lease: "Lease") -> dict[str, Any]:
    return {
        "session_id": lease.session_id,
        "username": lease.server.username,
        "servername": lease.server.servername,
        "flavor": lease.flavor,
        "image": lease.image,
        "image_id": lease.image_id,
        "price_per_hour_micro": lease.price_per_hour,
        "state": lease.state,
        "created_at": lease.created_at.isoformat(),
        "active_at": lease.active_at.isoformat() if lease.active_at else None,
        "devices": [asdict(slot) for slot in lease.allocation.slots],
    }


def _show_slots(lease: "Lease") -> list[str]:
    return [
        slot.device_uuid + (f" (slot {slot.slot + 1} of {slot.slots})" if slot.slots > 1 else "")
        for slot in lease.allocation.slots
    ]
