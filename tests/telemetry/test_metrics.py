"""Metrics: what they say; the reference tells each, the dashboard asks for no other, and no user is named."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from nbgpu.core.authorize import Cause
from nbgpu.core.culling import State
from nbgpu.core.devices import Readings, UsageSample
from nbgpu.core.leases import Lease, LeaseState, ServerRef
from nbgpu.core.placement import Allocation, Slot
from nbgpu.spawner.turnstile import WAITING
from nbgpu.telemetry.metrics import RunningTotal, Sources, render_metrics
from nbgpu.telemetry.reconciler import REPAIRS

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
HUBS_OWN = {"nbgpu_starts_waiting", "nbgpu_reconciler_repairs_total"}


def lease(number: int, flavor: str, state: LeaseState = LeaseState.ACTIVE, **more: object) -> Lease:
    return Lease(
        session_id=f"s{number}",
        server=ServerRef(f"user{number}"),
        flavor=flavor,
        image="base",
        image_id="sha256:1",
        price_per_hour=1,
        state=state,
        allocation=Allocation((Slot("GPU-1", 0, 2),)),
        created_at=NOW,
        **more,
    )


SAMPLES = (
    UsageSample(
        device_uuid="GPU-1",
        taken_at=NOW,
        gpu_utilization=40,
        memory_used=5,
        memory_total=10,
        temperature=50,
        power=100.5,
        power_limit=400,
        ecc_uncorrected=0,
    ),
    UsageSample(device_uuid="MIG-1", taken_at=NOW, memory_used=7),
)


def sources(**other) -> Sources:
    held = [
        lease(1, "a100", stop_cause=Cause.IDLE),
        lease(2, "a100"),
        lease(3, "t4", LeaseState.PENDING),
    ]
    parts = {
        "leases": lambda: held,
        "readings": lambda: Readings(NOW, SAMPLES),
        "quarantined": lambda: ["MIG-1"],
        "verdicts": lambda: {State.QUIET: 2, State.ACTIVE: 1},
        "charged": lambda: {"a100": 1_250_000, "": -250_000},
        "health": lambda: {
            "sampler": {"sampled_s_ago": 1.5},
            "loops": {"gpus": {"stale": False, "failures": 0}, "meter": {"stale": True, "failures": 4}},
        },
        "currency": "USD",
    }
    return Sources(**(parts | other))


def read(found: Sources) -> dict[tuple[str, ...], float]:
    """Return all values, each by its name and its labels' values."""
    families = text_string_to_metric_families(render_metrics(found).decode())
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_site_is_told():
    values = read(sources())
    assert {key[1:]: value for key, value in values.items() if key[0] == "nbgpu_sessions"} == {
        ("a100", "active"): 2,
        ("t4", "pending"): 1,
    }
    expected = {
        ("nbgpu_planned_stops", "idle"): 1,
        ("nbgpu_idle_verdicts", "quiet"): 2,
        ("nbgpu_charged", "USD", "a100"): 1.25,
        ("nbgpu_charged", "USD", ""): -0.25,
        ("nbgpu_device_leases", "GPU-1"): 3,
        ("nbgpu_device_leases", "MIG-1"): 0,
        ("nbgpu_device_quarantined", "MIG-1"): 1,
        ("nbgpu_device_utilization_ratio", "GPU-1"): 0.4,
        ("nbgpu_device_memory_used_bytes", "MIG-1"): 7,
        ("nbgpu_sampler_age_seconds",): 1.5,
        ("nbgpu_loop_stale", "meter"): 1,
        ("nbgpu_loop_failures", "meter"): 4,
    }
    assert {key: values[key] for key in expected} == expected


def test_what_is_not_reported_has_no_line():
    names = {key[0] for key in read(sources()) if key[-1] == "MIG-1"}
    assert names == {"nbgpu_device_leases", "nbgpu_device_quarantined", "nbgpu_device_memory_used_bytes"}
    nothing = sources(readings=lambda: None, health=lambda: {"status": "starting"})
    assert ("nbgpu_sampler_age_seconds",) not in read(nothing)


def test_no_user_is_named():
    assert "user1" not in render_metrics(sources()).decode()


def test_the_reference_tells_each_metric_and_no_other():
    ours = {family.name for family in text_string_to_metric_families(render_metrics(sources()).decode())}
    told = set(re.findall(r"^\| `(nbgpu_\w+)`", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE))
    assert told == ours | HUBS_OWN


def test_the_dashboard_asks_for_metrics_that_there_are():
    dashboard = json.loads((ROOT / "docs/grafana/nbgpu.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"\b(?:nbgpu|jupyterhub)_\w+", target["expr"])
    }
    ours = {key[0] for key in read(sources())} | HUBS_OWN
    assert asked <= ours | {"jupyterhub_server_spawn_duration_seconds_count"}
    assert ours <= asked | {"nbgpu_device_memory_total_bytes"}, "a metric that nobody looks at"


def test_the_hub_s_own_are_in_its_registry():
    assert WAITING in REGISTRY._collector_to_names
    assert set(REGISTRY._collector_to_names[REPAIRS]) >= {"nbgpu_reconciler_repairs_total"}
    assert set(REGISTRY._collector_to_names[WAITING]) == {"nbgpu_starts_waiting"}


def test_each_charge_is_read_once():
    asked = []

    def since(last_id: int) -> tuple[int, dict[str, int]]:
        asked.append(last_id)
        return (7, {"a100": 5, "cpu": 1}) if last_id < 7 else (9, {"a100": -2})

    total = RunningTotal(since)
    assert total() == {"a100": 5, "cpu": 1}
    assert total() == {"a100": 3, "cpu": 1}
    assert asked == [0, 7]


@pytest.mark.parametrize("fails", ["leases", "charged", "quarantined"])
def test_a_database_that_is_away_is_an_error_and_no_zero(fails):
    def away() -> None:
        raise LookupError("away")

    with pytest.raises(LookupError, match="away"):
        render_metrics(sources(**{fails: away}))
