"""`nbgpu gpus`: the devices, how they are, who holds them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from nbgpu.cli import cordon
from nbgpu.cli.lists import find_holders, open_site, show_time, show_user_text
from nbgpu.cli.output import JsonOption, print_json, print_table, show, to_plain
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption
from nbgpu.core.units import render_size

if TYPE_CHECKING:
    from nbgpu.core.devices import Device, InventorySnapshot, UsageSample
    from nbgpu.core.gpu_health import Quarantine
    from nbgpu.wiring.adapters import Adapters

app = typer.Typer(invoke_without_command=True)

app.command()(cordon.cordon)
app.command()(cordon.uncordon)
app.command("return")(cordon.give_back)


@app.callback()
def gpus(
    context: typer.Context,
    *,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List GPUs and MIG instances: how they are, what they report, who holds them."""
    if context.invoked_subcommand is not None:
        return
    listing = _look(open_site(data, config))
    if as_json:
        print_json(_to_plain(listing))
    else:
        _print(listing)


@dataclass(frozen=True, slots=True)
class _Listing:
    """What there is to show."""

    snapshot: "InventorySnapshot"
    samples: "Mapping[str, UsageSample]"
    holders: Mapping[str, list[str]]
    held_back: "Mapping[str, Quarantine]"
    sampler: Mapping[str, Any] | None  # what the service says of it; None: no service answers


def _look(site: "Adapters") -> _Listing:
    """Ask driver, database and service. Raises DriverError."""
    from nbgpu.core.errors import DriverError
    from nbgpu.wiring.service import read_health

    snapshot = site.inventory.snapshot()
    if snapshot.problem is not None:
        raise DriverError(snapshot.problem)
    return _Listing(
        snapshot=snapshot,
        samples={sample.device_uuid: sample for sample in site.inventory.sample()},
        holders=find_holders(site.leases.open_leases()),
        held_back=site.quarantines.open(),
        sampler=(read_health(site.deployment) or {}).get("sampler"),
    )


def _to_plain(listing: _Listing) -> list[dict[str, Any]]:
    from nbgpu.core.devices import Device

    # A device that is lost can't tell its UUID to a process that has not seen it before.
    unseen = [
        Device(uuid, problem=quarantine.fault.cause)
        for uuid, quarantine in listing.held_back.items()
        if uuid not in listing.snapshot.by_uuid
    ]
    age = listing.sampler["sampled_s_ago"] if listing.sampler is not None else None
    return [_plain_gpu(device, listing) | {"sampled_s_ago": age} for device in (*listing.snapshot.devices, *unseen)]


def _print(listing: _Listing) -> None:
    if listing.snapshot.simulated:
        typer.echo("Simulated GPUs: this machine has no NVIDIA driver.")
    print_table(
        ["#", "Name", "Memory used", "Load", "Temp.", "Held by", "UUID"],
        [_row_of_gpu(device, listing) for device in listing.snapshot.devices],
        empty="This machine has no GPU. CPU flavors work.",
    )
    for uuid, what in explain(listing.snapshot.devices, listing.held_back).items():
        typer.echo(f"{uuid}: {what}")
    typer.echo(describe_sampler(listing.sampler))


def explain(devices: "Sequence[Device]", held_back: "Mapping[str, Quarantine]") -> dict[str, str]:
    """Return why devices are not leased, by UUID; those that are gone as well."""
    why = {device.uuid: device.problem for device in devices if device.problem is not None}
    for uuid, quarantine in held_back.items():
        gone = "" if any(device.uuid == uuid for device in devices) else ", and the driver does not show it"
        cause = show_user_text(quarantine.fault.cause)
        why[uuid] = f"{_name_state(quarantine)} since {show_time(quarantine.since)}{gone}. {cause}"
    return why


def describe_sampler(sampler: Mapping[str, Any] | None) -> str:
    """Return how old the sampler's last look is, as a sentence."""
    if sampler is None:
        return "Not sampled now: the hub's nbgpu service does not answer. `nbgpu doctor` says more."
    age, problem = sampler["sampled_s_ago"], sampler["problem"]
    if sampler["stale"]:
        since = "not sampled yet" if age is None else f"last sampled {age:.0f} s ago"
        return f"Stale: {since}. {problem or ''}".strip()
    return f"Sampled {age:.0f} s ago."


def _row_of_gpu(device: "Device", listing: _Listing) -> list[str]:
    sample = listing.samples.get(device.uuid)
    used = render_size(sample.memory_used if sample else None)
    return [
        "  MIG" if device.is_mig else show(device.index),
        show(device.name),
        f"{used} of {render_size(device.memory_total)}",
        show(sample.gpu_utilization if sample else None, " %"),
        show(sample.temperature if sample else None, " °C"),
        _describe_hold(device, listing),
        device.uuid,
    ]


def _describe_hold(device: "Device", listing: _Listing) -> str:
    quarantine = listing.held_back.get(device.uuid)
    state = _name_state(quarantine) if quarantine is not None else "not leased" if device.problem is not None else ""
    parts = [*map(show_user_text, listing.holders.get(device.uuid, ())), state]
    return ", ".join(filter(None, parts)) or ("in MIG mode" if device.mig_enabled else "free")


def _name_state(quarantine: "Quarantine") -> str:
    return "out of service" if quarantine.fault.kind == "cordon" else "in quarantine"


def _plain_gpu(device: "Device", listing: _Listing) -> dict[str, Any]:
    sample = listing.samples.get(device.uuid)
    return to_plain(
        asdict(device),
        usage=to_plain(asdict(sample)) if sample else None,
        held_by=listing.holders.get(device.uuid, []),
        quarantine=_plain_quarantine(listing.held_back.get(device.uuid)),
    )


def _plain_quarantine(quarantine: "Quarantine | None") -> dict[str, Any] | None:
    if quarantine is None:
        return None
    last_good_at = quarantine.last_good_at
    return {
        "kind": quarantine.fault.kind,
        "cause": quarantine.fault.cause,
        "since": quarantine.since.isoformat(),
        "last_good_at": last_good_at.isoformat() if last_good_at else None,
    }
