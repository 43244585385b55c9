"""How long a statement takes: of a month of a thousand users, and of a small month as the other months grow."""

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields
from datetime import UTC, date, datetime
from operator import attrgetter
from pathlib import Path
from random import Random

from bench.figures import Figure, median
from nbgpu.core.ledger import Charge
from nbgpu.core.periods import HOUR, to_seconds
from nbgpu.core.statement import Dimension, ask
from nbgpu.store import open_database
from nbgpu.store.statements import SqlStatements

FULL_TIME = 160  # hours that a user runs a server in a month: eight on each of twenty days
HOURS = 31 * 24  # of a month
MARCH = to_seconds(datetime(2026, 3, 1, tzinfo=UTC))
NOW = datetime(2026, 4, 1, tzinfo=UTC)
FIELDS = tuple(field.name for field in fields(Charge))
_RAW = """
    SELECT username, sum(consumed_seconds), sum(billed_cost) FROM charges
    WHERE charge_period_start >= ? AND charge_period_start < ? GROUP BY username
"""


def measure_statements() -> Iterator[Figure]:
    """Seconds by user, with busy GPU hours, against SQLite's own sum of the same lines; then the growth."""
    with tempfile.TemporaryDirectory(prefix="nbgpu-bench-") as folder:
        file = Path(folder) / "nbgpu.sqlite"
        fill(file, [0], users=1000, hours_each=FULL_TIME)
        ours, raw = _time(_statement(file), rounds=5), _time(_raw(file), rounds=5)
        yield Figure("ledger.statement", ours, raw, "s", "under 1 s for a month of 1,000 users")
    with tempfile.TemporaryDirectory(prefix="nbgpu-bench-") as folder:
        file = Path(folder) / "nbgpu.sqlite"
        fill(file, [0], users=20, hours_each=FULL_TIME)
        alone, filled = _time(_statement(file), rounds=25), 1
        for times in (10, 100):
            fill(file, [-month for month in range(filled, times)], users=20, hours_each=FULL_TIME)
            filled = times
            yield Figure(f"ledger.statement.x{times}", _time(_statement(file), rounds=25), alone, "s", "at most 1.5x")


def _statement(file: Path) -> Callable[[], object]:
    statements = SqlStatements(open_database(f"sqlite:///{file}"))
    question = ask([Dimension.USER], date(2026, 3, 1), date(2026, 3, 31), UTC)
    return lambda: statements.read(question, NOW)


def _raw(file: Path) -> Callable[[], object]:
    connection = sqlite3.connect(file)
    return lambda: connection.execute(_RAW, (MARCH, MARCH + HOURS * HOUR)).fetchall()


def _time(work: Callable[[], object], *, rounds: int) -> float:
    """Return the median of some rounds, after one that is not counted."""
    seconds = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return median(seconds[1:])


def fill(file: Path, months: list[int], *, users: int, hours_each: int) -> None:
    """Add months of lines and of sampled hours: each user runs a server with a GPU for some hours of each."""
    open_database(f"sqlite:///{file}").dispose()
    values, names = attrgetter(*FIELDS), ", ".join(["id", *FIELDS, "recorded_at"])
    lines = f"INSERT INTO charges ({names}) VALUES ({', '.join('?' * (len(FIELDS) + 2))})"
    with closing(sqlite3.connect(file)) as connection:
        (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM charges").fetchone()
        for month in months:
            charges = list(_month(month, users, hours_each))
            rows = [(last + number, *values(charge), 1) for number, charge in enumerate(charges, start=1)]
            last += len(rows)
            connection.executemany(lines, rows)
            of_devices = [charge for charge in charges if charge.resource_id]
            connection.executemany(_SESSION, {(charge.session_id, charge.username) for charge in of_devices})
            connection.executemany(
                _SAMPLED, [(each.session_id, each.resource_id, each.charge_period_start) for each in of_devices]
            )
        connection.commit()


_SESSION = """
    INSERT INTO sessions (session_id, username, servername, flavor, image, image_id, price_per_hour, state, created_at,
        active_at, released_at, settled)
    SELECT ?1, ?2, ?1, 'a100', 'base', 'i', 1, 'released', '2026-03-01', '2026-03-01', '2026-03-02', 1
"""
_SAMPLED = """
    INSERT INTO usage_hours (session_id, device_uuid, starts_at, run, sampled_ms, busy_ms)
    VALUES (?, ?, ?, 'r', 3600000, 1800000)
"""


def _month(month: int, users: int, hours_each: int) -> Iterator[Charge]:
    random = Random(month)
    for hour in range(HOURS):
        for user in range(users):
            if random.random() < hours_each / HOURS:
                for resource in ("", f"GPU-{user % 64}"):
                    yield _charge(month, hour, user, resource)


def _charge(month: int, hour: int, user: int, resource: str) -> Charge:
    session = f"{month:+03}{user:05}-0000-4000-8000-{hour // 12:012}"
    start, sku = MARCH + (month * HOURS + hour) * HOUR, "gpu" if resource else "host"
    return Charge(
        charge_key=f"{session}|{sku}|{start}",
        session_id=session,
        username=f"user-{user:04}",
        billing_group=f"group-{user % 20}",
        flavor=f"flavor-{user % 6}",
        sku_id=f"flavor-{user % 6}:{sku}:on-demand",
        resource_id=resource,
        charge_category="Usage",
        charge_period_start=start,
        charge_period_end=start + HOUR,
        consumed_seconds=HOUR,
        consumed_unit="GPU-Hours",
        list_unit_price=1_900_000,
        billed_cost=1_900_000,
        billing_currency="USD",
    )
