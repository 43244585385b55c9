"""Bring a database's schema up to date: all of it in one transaction, or nothing.

What was killed half-way has changed nothing and is done again by the next who opens the database.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from alembic import command
from sqlalchemy import Connection, Engine, insert, text

from nbgpu.core.errors import DatabaseTaken
from nbgpu.store.backup import back_up
from nbgpu.store.clock import utc_now
from nbgpu.store.lock import HubLock, lock_database
from nbgpu.store.place import sqlite_file
from nbgpu.store.revision import newest_revision, read_revision, script_config
from nbgpu.store.schema import AuditRow
from nbgpu.store.trouble import describe

_MIGRATION_LOCK = 7_206_151  # any number: PostgreSQL's advisory lock that admits one migration at a time


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What was done to a schema; `before` is None for a database that was empty."""

    before: str | None
    after: str
    backup: Path | None = None

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return self.before != self.after


def bring_up(engine: Engine, *, actor: str = "nbgpu") -> Upgrade:
    """Bring the schema up to date; a SQLite database that has one is backed up beside itself first.

    Raises StoreError: for a schema that is not ours or newer, and while a hub works with an older one; DBAPIError.
    """
    before = read_revision(engine)
    if before is None:
        return _migrate(engine, Upgrade(None, newest_revision()), actor)
    if before == newest_revision():
        return Upgrade(before, before)
    lock = _keep_hubs_away(engine, before)
    try:
        backup = back_up(engine, _backup_name(engine, before)).file if engine.dialect.name == "sqlite" else None
        return _migrate(engine, Upgrade(before, newest_revision(), backup), actor)
    finally:
        lock.give_back()


def bring_up_copy(engine: Engine) -> None:
    """Bring up the schema of a copy that nobody else has. Raises StoreError; DBAPIError."""
    before = read_revision(engine)
    if before != newest_revision():
        _migrate(engine, Upgrade(before, newest_revision()), actor="nbgpu")


def _keep_hubs_away(engine: Engine, before: str) -> HubLock:
    try:
        return lock_database(engine)
    except DatabaseTaken as error:
        raise DatabaseTaken(
            f"{describe(engine.url)} has schema {before}, older than this nbgpu's {newest_revision()}, and a hub of "
            "the older nbgpu uses it. Restart the hub: its start brings the schema up."
        ) from error


def aside_name(file: Path, what: str, now: datetime) -> Path:
    """Return a dated name beside a database file."""
    return file.with_name(f"{file.name}.{what}-{now.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}")


def _backup_name(engine: Engine, revision: str) -> Path:
    return aside_name(sqlite_file(engine.url), f"before-upgrade-of-{revision}", utc_now())


def _migrate(engine: Engine, upgrade: Upgrade, actor: str) -> Upgrade:
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
        config = script_config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        if upgrade.before is not None:
            _note(connection, upgrade, actor)
    return upgrade


def _note(connection: Connection, upgrade: Upgrade, actor: str) -> None:
    detail = f"from {upgrade.before} to {upgrade.after}"
    if upgrade.backup is not None:
        detail += f"; the database as it was: {upgrade.backup}"
    row = {"recorded_at": utc_now(), "actor": actor[:255], "action": "database.upgrade", "subject": "schema"}
    connection.execute(insert(AuditRow).values(row | {"detail": detail[:1000]}))
