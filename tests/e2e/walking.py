"""Fifty people and a month of their sessions, put into a hub's database: nothing of them runs."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from nbgpu.core.ledger import Charge, ChargeCategory
from nbgpu.core.periods import HOUR, to_seconds
from nbgpu.store import open_database
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.schema import SessionRow
from nbgpu.store.usage_schema import UsageHourRow
from nbgpu.store.work import unit_of_work

PEOPLE, DAYS = 50, 30
FLAVORS = {"cpu": 0, "t4-shared": 300_000, "a100": 2_000_000}  # with what a GPU costs an hour
ENDS = (
    "stopped",
    "stopped by an administrator: it mines <i>coins</i>",
    "The server ran out of memory",
    "reconciled: gone",
)


def fill(data: Path) -> None:
    """Add the sessions, what they cost, and how busy their GPUs were."""
    random, engine = Random(7), open_database(f"sqlite:///{data / 'nbgpu.sqlite'}")
    today = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=9)
    charges: list[Charge] = []
    with unit_of_work(engine) as db:
        for number in range(PEOPLE * DAYS):
            row = _session(number, random, today - timedelta(days=number // PEOPLE))
            db.add(row)
            charges += _charges(row)
        db.flush()
        db.add_all(_hours(charges, random))
    SqlLedger(engine).post(charges)
    engine.dispose()


def _session(number: int, random: Random, began: datetime) -> SessionRow:
    ended = began + timedelta(hours=random.randint(1, 4))
    values: dict[str, Any] = {
        "image": "base",
        "image_id": "i",
        "price_per_hour": 1,
        "state": "released",
        "settled": True,
    }
    return SessionRow(
        session_id=f"walk-{number:06}",
        username=f"walker-{number % PEOPLE:02}",
        servername="" if number % 3 else "training",
        flavor=random.choice(list(FLAVORS)),
        user_groups=[f"course-{number % 5}"],
        billing_group=f"course-{number % 5}",
        created_at=began,
        active_at=began,
        released_at=ended,
        ended_at=ended,
        release_reason=random.choice(ENDS),
        **values,
    )


def _charges(row: SessionRow) -> Iterator[Charge]:
    began, ended = to_seconds(row.created_at), to_seconds(row.ended_at or row.created_at)
    for resource in ("", "GPU-walk") if FLAVORS[row.flavor] else ("",):
        price = FLAVORS[row.flavor] if resource else 60_000
        sku = f"{row.flavor}:{'gpu' if resource else 'host'}:on-demand"
        for at in range(began, ended, HOUR):
            yield Charge(
                charge_key=f"{row.session_id}|{sku}|{at}",
                session_id=row.session_id,
                username=row.username,
                billing_group=row.billing_group,
                flavor=row.flavor,
                sku_id=sku,
                resource_id=resource,
                charge_category=ChargeCategory.USAGE.value,
                charge_period_start=at,
                charge_period_end=at + HOUR,
                consumed_seconds=HOUR,
                consumed_unit="GPU-Hours" if resource else "Server-Hours",
                list_unit_price=price,
                billed_cost=price,
                billing_currency="USD",
            )


def _hours(charges: list[Charge], random: Random) -> Iterator[UsageHourRow]:
    for each in charges:
        if each.resource_id:
            yield UsageHourRow(
                session_id=each.session_id,
                device_uuid=each.resource_id,
                starts_at=each.charge_period_start,
                run="walk",
                sampled_ms=3_600_000,
                busy_ms=random.randint(0, 3_000_000),
            )
