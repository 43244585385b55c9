"""A server's newest session as its owner reads it: what it holds, since when, and why it ended. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from nbgpu.core.devices import Device
from nbgpu.core.flavors import Flavor
from nbgpu.core.leases import Lease
from nbgpu.core.texts import Text
from nbgpu.spawner.cards import describe_price
from nbgpu.spawner.endings import Ending, explain_end


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session as pages show it."""

    flavor: str  # as the card says; the slug where the flavor is gone from the menu
    flavor_slug: str
    image: str
    devices: tuple[str, ...]  # names
    price: Text
    time_limit: timedelta | None
    since: datetime
    ended_at: datetime | None
    ending: Ending | None


def build_session_view(
    lease: Lease, flavor: Flavor | None, devices: Mapping[str, Device], currency: str
) -> SessionView:
    """Return the view of a lease; `flavor` is None when the menu has it no more."""
    names = [devices[uuid].name if uuid in devices else None for uuid in lease.allocation.device_uuids]
    return SessionView(
        flavor=flavor.display_name if flavor is not None else lease.flavor,
        flavor_slug=lease.flavor,
        image=lease.image,
        devices=tuple(name or "GPU" for name in names),
        price=describe_price(lease.price_per_hour, currency),
        time_limit=flavor.time_limit if flavor is not None else None,
        since=lease.active_at or lease.created_at,
        ended_at=lease.released_at,
        ending=explain_end(lease.release_reason or "") if lease.released_at is not None else None,
    )
