"""A server's newest session as its owner reads it: what it holds, since when, and why it ended. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from nbgpu.core.devices import Device
from nbgpu.core.flavors import Flavor
from nbgpu.core.idle_view import IdleView
from nbgpu.core.leases import Lease
from nbgpu.core.session_status import describe_last
from nbgpu.core.stops import explain_stop, why_it_stops
from nbgpu.core.texts import Text
from nbgpu.core.units import render_money
from nbgpu.spawner.cards import describe_price
from nbgpu.spawner.endings import Ending, explain_end
from nbgpu.spawner.idling import IdleLine, build_idle_line


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
    until: datetime | None = None  # when it has run as long as it may
    stop: Text | None = None  # what sets that; set where its stop is decided
    cost: Text | None = None  # so far
    lost: int = 0  # devices of it that failed
    idle: IdleLine | None = None  # None: no rule of idleness holds


def build_session_view(
    lease: Lease,
    flavor: Flavor | None,
    devices: Mapping[str, Device],
    currency: str,
    *,
    cost: int | None = None,
    price: int | None = None,
    idle: IdleView | None = None,
    zone: tzinfo = UTC,
) -> SessionView:
    """Return the view of a lease; `flavor` is None when the menu has it no more, `zone` is the site's.

    `price` is that of an hour now; None: as it was at the start.
    """
    names = [devices[uuid].name if uuid in devices else None for uuid in lease.allocation.device_uuids]
    return SessionView(
        flavor=flavor.display_name if flavor is not None else lease.flavor,
        flavor_slug=lease.flavor,
        image=lease.image,
        devices=tuple(name or "GPU" for name in names),
        price=describe_price(lease.price_per_hour if price is None else price, currency),
        time_limit=flavor.time_limit if flavor is not None else None,
        since=lease.active_at or lease.created_at,
        ended_at=lease.released_at,
        ending=_explain(lease, idle, zone) if lease.released_at is not None else None,
        until=_until(lease),
        stop=why_it_stops(lease.stop_cause) if lease.stop_cause is not None else None,
        lost=len(lease.lost_devices),
        idle=build_idle_line(idle) if idle is not None else None,
        cost=Text("%(cost)s %(currency)s", cost=render_money(cost), currency=currency) if cost is not None else None,
    )


def _explain(lease: Lease, idle: IdleView | None, zone: tzinfo) -> Ending:
    """Why it ended: a stop that was due says more than that somebody asked for one."""
    if lease.stop_cause is None or lease.release_reason != "stopped" or not _was_due(lease):
        return explain_end(lease.release_reason or "")
    why = describe_last(idle, zone) if idle is not None else None
    return Ending(why=why or explain_stop(lease.stop_cause))


def _was_due(lease: Lease) -> bool:
    return lease.stop_at is not None and lease.released_at is not None and lease.stop_at <= lease.released_at


def _until(lease: Lease) -> datetime | None:
    if lease.stop_at is not None:
        return lease.stop_at
    return lease.active_at + lease.authorized if lease.active_at is not None and lease.authorized is not None else None
