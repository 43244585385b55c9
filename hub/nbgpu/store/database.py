"""Open the database: SQLite with the settings that money and leases need, or PostgreSQL, at the newest schema."""

import re
import time
from contextlib import closing
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError

from nbgpu.core.errors import StoreError
from nbgpu.store.migrate import Upgrade, bring_up
from nbgpu.store.place import find_trouble, sqlite_file
from nbgpu.store.trouble import describe, explain, is_locked
from nbgpu.store.work import READS_ONLY

BUSY_TIMEOUT = 10.0  # seconds that a writer waits for another
_OPENING = 4  # times as long is waited at the opening: the hub's start can't be asked again by a click
_BETWEEN_TRIES = 0.1  # seconds
# A server that is gone without a word is noticed in a minute, whatever the system's defaults (two hours) are.
_POSTGRESQL = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def open_database(url: str, *, patience: float = BUSY_TIMEOUT) -> Engine:
    """Return an engine on `url` with the schema brought up to date. Raises StoreError.

    A writer waits `patience` seconds for another; the opening itself waits longer.
    """
    engine = connect_database(url, patience=patience)
    try:
        ensure_schema(engine, patience=patience)
    except StoreError:
        engine.dispose()
        raise
    return engine


def ensure_schema(engine: Engine, *, actor: str = "nbgpu", patience: float = BUSY_TIMEOUT) -> Upgrade:
    """Bring the schema up to date, and wait for those who have the database locked. Raises StoreError."""
    deadline = time.monotonic() + _OPENING * patience
    while True:
        try:
            return bring_up(engine, actor=actor)
        except DBAPIError as error:
            trouble = find_trouble(sqlite_file(engine.url)) if engine.dialect.name == "sqlite" else None
            if trouble is not None:
                raise StoreError(f"{describe(engine.url)} can't be used. {trouble}") from error
            if not is_locked(error) or time.monotonic() > deadline:
                raise StoreError(explain(error, engine)) from error
        time.sleep(_BETWEEN_TRIES)


def connect_database(url: str, *, patience: float = BUSY_TIMEOUT) -> Engine:
    """Return an engine on `url` that has not asked the database anything yet. Raises StoreError without a driver."""
    # The driver is psycopg 3; SQLAlchemy's own default for "postgresql:" is another.
    parsed = make_url(re.sub(r"^postgresql:", "postgresql+psycopg:", url))
    is_sqlite = parsed.get_backend_name() == "sqlite"
    more = {} if is_sqlite else {key: value for key, value in _POSTGRESQL.items() if key not in parsed.query}
    try:
        engine = create_engine(parsed, pool_pre_ping=not is_sqlite, connect_args=more)  # a file is always there
    except ModuleNotFoundError as error:
        raise StoreError("PostgreSQL needs a driver: pip install 'nbgpu[postgresql]'.") from error
    event.listen(engine, "connect", partial(_prepare_sqlite if is_sqlite else _prepare_postgresql, patience))
    if is_sqlite:
        event.listen(engine, "begin", _begin)
    return engine


def _prepare_sqlite(patience: float, connection: Any, _record: object) -> None:
    connection.isolation_level = None  # we begin ourselves: the driver's own BEGIN is deferred
    with closing(connection.cursor()) as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {patience * 1000:.0f}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA synchronous = FULL")


def _prepare_postgresql(patience: float, connection: Any, _record: object) -> None:
    with closing(connection.cursor()) as cursor:
        cursor.execute(f"SET lock_timeout = {patience * 1000:.0f}")
    connection.commit()


def _begin(connection: Connection) -> None:
    # A deferred transaction that reads and then writes fails at once when another writer came between.
    reads_only = connection.get_execution_options().get(READS_ONLY, False)
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")
