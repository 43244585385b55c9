"""How fast charges are posted, against the same rows by sqlite3's own executemany into a table of the same shape."""

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from operator import attrgetter
from pathlib import Path

from bench.figures import Figure, median
from nbgpu.core.ledger import Charge
from nbgpu.store import open_database
from nbgpu.store.ledger import SqlLedger

ROUNDS, BATCHES, BATCH = 5, 10, 1000
FIELDS = tuple(field.name for field in fields(Charge))


def measure_posting() -> Iterator[Figure]:
    """Rows a second, in batches of one transaction each, the two in turn on files of the same settings."""
    rates: dict[str, list[float]] = {"ours": [], "raw": []}
    for round_ in range(ROUNDS + 1):
        for name, post in (("ours", _post_ours), ("raw", _post_raw)):
            with tempfile.TemporaryDirectory(prefix="nbgpu-bench-") as folder:
                seconds = post(Path(folder) / "nbgpu.sqlite")
            if round_:
                rates[name].append(BATCHES * BATCH / seconds)
    yield Figure("ledger.rows", median(rates["ours"]), median(rates["raw"]), "rows/s", "at least 0.5x executemany")


def build_batches() -> list[list[Charge]]:
    """Return charges as a site of a thousand sessions posts them."""
    return [[_charge(batch * BATCH + number) for number in range(BATCH)] for batch in range(BATCHES)]


def _charge(number: int) -> Charge:
    session, hour = f"00000000-0000-4000-8000-{number % 1000:012}", number // 1000
    start = 1_774_742_400 + hour * 3600
    return Charge(
        charge_key=f"{session}|a100:gpu:on-demand|GPU-{number % 8}|{start}",
        session_id=session,
        username=f"user-{number % 1000}",
        billing_group=f"group-{number % 20}",
        flavor="a100",
        sku_id="a100:gpu:on-demand",
        resource_id=f"GPU-{number % 8}",
        charge_category="Usage",
        charge_period_start=start,
        charge_period_end=start + 3600,
        consumed_seconds=3600,
        consumed_unit="GPU-Hours",
        list_unit_price=1_900_000,
        billed_cost=1_900_000,
        billing_currency="USD",
    )


def _post_ours(file: Path) -> float:
    engine = open_database(f"sqlite:///{file}")
    ledger, batches = SqlLedger(engine), build_batches()
    began = time.perf_counter()
    for batch in batches:
        ledger.post(batch)
    seconds = time.perf_counter() - began
    engine.dispose()
    return seconds


def _post_raw(file: Path) -> float:
    open_database(f"sqlite:///{file}").dispose()  # the same tables and indexes
    values, batches = attrgetter(*FIELDS), build_batches()
    names = ", ".join(["id", *FIELDS, "recorded_at"])
    statement = f"INSERT INTO charges ({names}) VALUES ({', '.join('?' * (len(FIELDS) + 2))})"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        rows = [
            [(index * BATCH + number + 1, *values(charge), 1) for number, charge in enumerate(batch)]
            for index, batch in enumerate(batches)
        ]
        began = time.perf_counter()
        for batch in rows:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(statement, batch)
            connection.execute("COMMIT")
        return time.perf_counter() - began
