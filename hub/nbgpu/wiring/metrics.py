"""Metrics, put together for one deployment."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nbgpu.telemetry.metrics import RunningTotal, Sources, render_metrics
from nbgpu.wiring.sampling import Sampling


def build_metrics(sampling: Sampling, health: Callable[[], Mapping[str, Any]]) -> Callable[[], bytes]:
    """Return what renders the metrics; `health` is the service's own."""
    adapters = sampling.adapters
    sources = Sources(
        leases=adapters.leases.open_leases,
        readings=lambda: sampling.sampler.readings,
        quarantined=adapters.quarantines.open,
        verdicts=lambda: sampling.idle_watch.verdicts,
        charged=RunningTotal(adapters.ledger.charged_since),
        health=health,
        currency=adapters.settings.billing.currency,
    )
    return partial(render_metrics, sources)
