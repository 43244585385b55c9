"""Put a backup in the database's place. What is there is kept under a dated name; a crash leaves one of the two."""

import os
import shlex
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from nbgpu.core.errors import StoreError
from nbgpu.store.audit import SqlAuditLog
from nbgpu.store.backup import BESIDE, copy_database, draft_of, sync_folder, verify
from nbgpu.store.clock import utc_now
from nbgpu.store.database import connect_database
from nbgpu.store.lock import lock_database
from nbgpu.store.migrate import aside_name, bring_up_copy
from nbgpu.store.place import sqlite_file, tool_url
from nbgpu.store.revision import newest_revision
from nbgpu.store.trouble import describe, explain


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put in place: its schema before and now, and where the database is that was there before."""

    revision: str
    upgraded_to: str
    aside: Path | None  # None: there was none


def restore(engine: Engine, file: Path, *, actor: str) -> Restored:
    """Replace the database of `engine` by the backup `file`.

    Raises StoreError for a file that is not sound, not ours or of a newer schema; DatabaseTaken while a hub runs.
    """
    if engine.dialect.name != "sqlite":
        raise StoreError(_pg_restore(engine, file))
    if not file.is_file():
        raise StoreError(f"There is no backup {file}: name the file that nbgpu db backup wrote.")
    revision = verify(file)
    target = sqlite_file(engine.url)
    lock = lock_database(engine)
    try:
        with draft_of(target) as draft:
            copy_database(file, draft)
            _prepare(draft, target, file, actor)
            engine.dispose()
            return Restored(revision, newest_revision(), _swap(draft, target))
    finally:
        lock.give_back()


def _prepare(draft: Path, target: Path, file: Path, actor: str) -> None:
    """Upgrade the copy where it is of an older schema, and write down where it comes from, before it is used."""
    engine = connect_database(f"sqlite:///{draft}")
    try:
        bring_up_copy(engine)
        SqlAuditLog(engine).record(
            actor=actor, action="database.restore", subject=str(target), detail=f"restored from {file.resolve()}"
        )
    except DBAPIError as error:
        raise StoreError(explain(error, engine)) from error
    finally:
        engine.dispose()
    _fold(draft)


def _fold(file: Path) -> None:
    """Move what the log of a database still holds into its file. Raises sqlite3.Error."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def _swap(draft: Path, target: Path) -> Path | None:
    """Put the draft in place and return where the database that was there is now."""
    aside = None
    if target.exists():
        with suppress(sqlite3.Error):  # a damaged one is kept as it is, with its log
            _fold(target)
        aside = aside_name(target, "before-restore", utc_now())
        os.link(target, aside)  # no instant without a database: a hub would make an empty one
    for suffix in BESIDE:
        beside = target.with_name(target.name + suffix)
        if beside.exists():  # it must not be taken for the new one's
            beside.replace(f"{aside or target.with_name(target.name + '.lost')}{suffix}")
    draft.replace(target)
    sync_folder(target.parent)
    return aside


def _pg_restore(engine: Engine, file: Path) -> str:
    return (
        f"{describe(engine.url)} is restored by PostgreSQL's own tool, once the hub is stopped: "
        f"pg_restore --clean --if-exists --no-owner --single-transaction --dbname={tool_url(engine.url)} "
        f"{shlex.quote(str(file))}"
    )
