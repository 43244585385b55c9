"""Open the database: SQLite with the settings that money and leases need, or PostgreSQL, at the newest schema."""

import re
from contextlib import closing
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError

from nbgpu.core.errors import StoreError
from nbgpu.store.work import READS_ONLY

BUSY_TIMEOUT = 10  # seconds that a writer waits for another


def open_database(url: str) -> Engine:
    """Return an engine on `url` with the schema brought up to date. Raises StoreError."""
    try:
        # The driver is psycopg 3; SQLAlchemy's own default for "postgresql:" is another.
        engine = create_engine(re.sub(r"^postgresql:", "postgresql+psycopg:", url), pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise StoreError("PostgreSQL needs a driver: pip install 'nbgpu[postgresql]'.") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin)
    try:
        with engine.begin() as connection:
            _upgrade(connection)
    except DatabaseError as error:
        engine.dispose()
        raise StoreError(f"The database {engine.url!r} can't be used: {error.orig or error}.") from error
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # we begin ourselves: the driver's own BEGIN is deferred
    with closing(connection.cursor()) as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT * 1000}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA synchronous = FULL")


def _begin(connection: Connection) -> None:
    # A deferred transaction that reads and then writes fails at once when another writer came between.
    reads_only = connection.get_execution_options().get(READS_ONLY, False)
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")


def _upgrade(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
