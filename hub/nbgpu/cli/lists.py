"""`nbgpu gpus`, `nbgpu flavors` and `nbgpu leases`: what there is, what is free, who holds what since when."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nbgpu.cli.output import JsonOption, print_json, print_table, show, to_plain
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption
from nbgpu.core.units import render_span

if TYPE_CHECKING:
    from nbgpu.core.devices import Device, UsageSample
    from nbgpu.core.leases import Lease
    from nbgpu.spawner.cards import Card
    from nbgpu.wiring.adapters import Adapters


def gpus(*, data: DataOption = DEFAULT_DATA, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List GPUs and MIG instances, what they report, and who holds them."""
    from nbgpu.core.errors import DriverError

    site = open_site(data, config)
    snapshot, holders = site.inventory.snapshot(), find_holders(site.leases.open_leases())
    if snapshot.problem is not None:
        raise DriverError(snapshot.problem)
    samples = {sample.device_uuid: sample for sample in site.inventory.sample()}
    if as_json:
        print_json([_plain_gpu(device, samples.get(device.uuid), holders) for device in snapshot.devices])
        return
    if snapshot.simulated:
        typer.echo("Simulated GPUs: this machine has no NVIDIA driver.")
    print_table(
        ["#", "Name", "Memory used", "Load", "Temp.", "Held by", "UUID"],
        [_row_of_gpu(device, samples.get(device.uuid), holders[device.uuid]) for device in snapshot.devices],
        empty="This machine has no GPU. CPU flavors work.",
    )


def flavors(*, data: DataOption = DEFAULT_DATA, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the menu with what is free now."""
    from nbgpu.spawner.cards import build_card

    site = open_site(data, config)
    snapshot, leases = site.inventory.snapshot(), site.leases.open_leases()
    currency = site.settings.billing.currency
    cards = [build_card(flavor, snapshot, leases, currency=currency) for flavor in site.menu.flavors]
    if as_json:
        print_json([_plain_card(card) for card in cards])
        return
    print_table(
        ["Flavor", "Name", "Kind", "Devices", "Machine", "Price", "Free"],
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


def _row_of_gpu(device: "Device", sample: "UsageSample | None", holders: list[str]) -> list[str]:
    from nbgpu.core.units import render_size

    held = show_user_text(", ".join(holders)) or ("in MIG mode" if device.mig_enabled else "free")
    used = render_size(sample.memory_used if sample else None)
    return [
        "  MIG" if device.is_mig else show(device.index),
        show(device.name),
        f"{used} of {render_size(device.memory_total)}",
        show(sample.gpu_utilization if sample else None, " %"),
        show(sample.temperature if sample else None, " °C"),
        device.problem or held,
        device.uuid,
    ]


def _plain_gpu(device: "Device", sample: "UsageSample | None", holders: dict[str, list[str]]) -> dict[str, Any]:
    usage = to_plain(asdict(sample)) if sample else None
    return to_plain(asdict(device), usage=usage, held_by=holders[device.uuid])


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
