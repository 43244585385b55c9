"""`nbgpu gpus cordon`, `uncordon` and `return`: devices out of service by hand or for a fault, and back."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from nbgpu.cli.author import find_author
from nbgpu.cli.lists import open_site
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption

if TYPE_CHECKING:
    from nbgpu.core.gpu_health import FaultKind
    from nbgpu.telemetry.device_keeper import DeviceKeeper
    from nbgpu.wiring.adapters import Adapters

LOOKS, BETWEEN_LOOKS = 3, 1.0  # before a device goes back; seconds

Uuid = Annotated[str, typer.Argument(help="The device; a GPU's MIG instances come with it.")]


def cordon(
    uuid: Uuid,
    *,
    reason: Annotated[str, typer.Option(help="Why, for the audit log and for other administrators.")],
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Take a device out of service: nobody new gets it, who is on it goes on."""
    from nbgpu.core.reasons import parse_reason

    site = open_site(data, config)
    for each in _keeper(site).cordon(uuid, by=find_author(), reason=parse_reason(reason)):
        typer.echo(f"{each} is leased to nobody new.")


def uncordon(uuid: Uuid, *, data: DataOption = DEFAULT_DATA, config: ConfigOption = None) -> None:
    """Lease a device again that was taken out of service, if it reads well now."""
    from nbgpu.core.gpu_health import FaultKind

    _give_back(open_site(data, config), uuid, FaultKind.CORDON)


def give_back(uuid: Uuid, *, data: DataOption = DEFAULT_DATA, config: ConfigOption = None) -> None:
    """Lease a device again that was held back for a fault or by hand, if it reads well now."""
    _give_back(open_site(data, config), uuid, None)


def find_problem(site: "Adapters", uuids: set[str]) -> str | None:
    """Look at devices some times; return what is wrong with one, None when they read well or are not there."""
    from nbgpu.core.gpu_health import find_objection

    for number in range(LOOKS):
        time.sleep(BETWEEN_LOOKS if number else 0)
        if (problem := find_objection(site.inventory.sample(), uuids)) is not None:
            return problem
    return None


def _give_back(site: "Adapters", uuid: str, kind: "FaultKind | None") -> None:
    done = _keeper(site).give_back(
        uuid, by=find_author(), find_objection=lambda uuids: find_problem(site, uuids), kind=kind
    )
    for each in done:
        typer.echo(f"{each} is leased again.")


def _keeper(site: "Adapters") -> "DeviceKeeper":
    from nbgpu.telemetry.device_keeper import DeviceKeeper

    return DeviceKeeper(inventory=site.inventory, quarantines=site.quarantines, audit=site.audit, clock=site.clock)
