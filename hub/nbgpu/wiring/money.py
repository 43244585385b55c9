"""Metering and limits, put together for one deployment."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nbgpu.core.prices import build_prices
from nbgpu.service.loops import Loop
from nbgpu.spawner.docker_calls import LateClient
from nbgpu.spawner.notices import DockerNotices, LocalNotices
from nbgpu.telemetry import alerts, limits, meter
from nbgpu.telemetry.addresses import AppriseSender
from nbgpu.telemetry.uptime import read_uptime
from nbgpu.wiring.adapters import Adapters
from nbgpu.wiring.local import open_sessions


@dataclass(frozen=True)
class Money:
    """The parts of one deployment that count and keep money, each built when it is first asked for."""

    adapters: Adapters

    def loops(self) -> tuple[Loop, ...]:
        """Return what the service runs. Raises StoreError."""
        ensure_prices(self.adapters)
        return (
            Loop("meter", meter.PERIOD, self.meter.tick),
            Loop("limits", limits.PERIOD, self.keeper.tick),
            Loop("alerts", alerts.PERIOD, self.alerts.tick),
        )

    @cached_property
    def meter(self) -> meter.Meter:
        """Notes who runs and posts charges."""
        adapters = self.adapters
        return meter.Meter(metering=adapters.metering, fleet=adapters.fleet, clock=adapters.clock, uptime=read_uptime)

    @cached_property
    def keeper(self) -> limits.LimitKeeper:
        """Stops who has run as long as they may."""
        adapters = self.adapters
        return limits.LimitKeeper(
            limits=adapters.limits,
            notices=self.notices,
            hub=adapters.hub_api,
            fleet=adapters.fleet,
            leases=adapters.leases,
            audit=adapters.audit,
            clock=adapters.clock,
            zone=adapters.settings.policies.zone,
            watch_clock=self.meter.watch_clock,
        )

    @cached_property
    def notices(self) -> limits.Notices:
        """Tells running servers."""
        adapters = self.adapters
        if adapters.is_local:
            return LocalNotices(open_sessions(adapters.deployment))
        return DockerNotices(LateClient(lambda: adapters.docker.api), adapters.deployment.prefix)

    @cached_property
    def alerts(self) -> alerts.AlertLoop:
        """Sends alerts of budgets."""
        billing = self.adapters.settings.billing
        sender = AppriseSender(Path(billing.notify_file)) if billing.notify_file else None
        zone = self.adapters.settings.policies.zone
        return alerts.AlertLoop(self.adapters.limits, sender, currency=billing.currency, zone=zone)


def ensure_prices(adapters: Adapters) -> None:
    """Take the menu's prices over into the price sheets: what has changed holds from now on. Raises StoreError."""
    now = int(adapters.clock().timestamp())
    currency = adapters.settings.billing.currency
    found = [price for flavor in adapters.settings.flavors for price in build_prices(flavor, currency, now)]
    for price in adapters.prices.ensure(found):
        if price.effective_from:
            adapters.audit.record(
                actor="settings",
                action="price.change",
                subject=price.sku_id,
                detail=f"{price.list_unit_price} micro-{price.currency} an hour from {adapters.clock().isoformat()}",
            )
