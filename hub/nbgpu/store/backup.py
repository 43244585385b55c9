"""A copy of the SQLite database, taken while the hub goes on: of one instant, whole, verified, for our account only."""

import os
import shlex
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from nbgpu.core.errors import StoreError
from nbgpu.store.check import find_damage
from nbgpu.store.place import sqlite_file, tool_url
from nbgpu.store.revision import check_revision
from nbgpu.store.trouble import describe

Progress = Callable[[int, int], None]  # pages copied so far, pages in all
BESIDE = ("-wal", "-shm", "-journal")  # SQLite's files that belong to the database of that name
_PAGES = 5_000  # between two reports of progress: about 20 MB


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was verified."""

    file: Path
    size: int  # bytes
    revision: str  # of its schema


def back_up(engine: Engine, file: Path, *, force: bool = False, progress: Progress | None = None) -> Backup:
    """Write a backup to `file`, complete or not at all; without `force` a file that is there is kept. StoreError."""
    if engine.dialect.name != "sqlite":
        raise StoreError(_pg_dump(engine, file))
    source = sqlite_file(engine.url)
    if not source.is_file():
        raise StoreError(f"{describe(engine.url)} does not exist: there is nothing to back up.")
    if file.exists() and file.samefile(source):
        raise StoreError(f"{file} is the database itself: name another file for its backup.")
    with draft_of(file) as draft:
        copy_database(source, draft, progress=progress)
        revision = verify(draft)
        _publish(draft, file, force=force)
    return Backup(file, file.stat().st_size, revision)


def copy_database(source: Path, target: Path, *, progress: Progress | None = None) -> None:
    """Copy a database file, with what its log still holds, as of one instant. Raises StoreError."""
    try:
        with closing(open_for_reading(source)) as origin, closing(sqlite3.connect(target)) as copy:
            origin.execute("BEGIN")  # one instant, however long it takes and whoever writes meanwhile
            origin.execute("SELECT count(*) FROM sqlite_master").fetchone()
            origin.backup(copy, pages=_PAGES, progress=_reporting(progress))
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing beside it
    except sqlite3.Error as error:
        raise StoreError(
            f"{source} could not be copied to {target.parent}: {error}. Look at both and again."
        ) from error
    with target.open("rb") as written:
        os.fsync(written.fileno())


def open_for_reading(file: Path) -> sqlite3.Connection:
    """Return a connection that changes nothing in a database."""
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=10)


def verify(file: Path) -> str:
    """Return the schema of a database file that is sound and ours. Raises StoreError where it is not."""
    try:
        with closing(open_for_reading(file)) as connection:
            damage = find_damage(lambda statement: connection.execute(statement).fetchall())
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            ours = "alembic_version" in tables
            rows = connection.execute("SELECT version_num FROM alembic_version").fetchall() if ours else []
    except sqlite3.Error as error:
        raise StoreError(f"{file} is no sound SQLite database: {error}. Take another backup.") from error
    if damage:
        raise StoreError(f"{file} is damaged: {'; '.join(damage)}. Take another backup.")
    return check_revision(", ".join(str(row[0]) for row in rows), str(file))


@contextmanager
def draft_of(file: Path) -> Iterator[Path]:
    """Give an empty file beside `file` (mode 0600) to be filled and moved to its place; removed if it was not.

    Raises StoreError for what goes wrong with files meanwhile.
    """
    draft = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield draft
    except OSError as error:
        raise StoreError(f"{file} can't be written: {error.strerror}. Look at its folder and disk.") from error
    finally:
        for suffix in ("", *BESIDE):
            with suppress(OSError):
                draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """See that what was moved in a folder is there after a power cut as well."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _publish(draft: Path, file: Path, *, force: bool) -> None:
    if file.is_dir() or (file.exists() and not force):
        raise StoreError(f"{file} is there already and is kept. Name another file, or overwrite it with --force.")
    draft.replace(file)
    sync_folder(file.parent)


def _reporting(progress: Progress | None) -> Callable[[int, int, int], None] | None:
    if progress is None:
        return None
    return lambda _status, remaining, total: progress(total - remaining, total)


def _pg_dump(engine: Engine, file: Path) -> str:
    return (
        "PostgreSQL brings its own backup, which is as safe while the hub runs: "
        f"pg_dump --format=custom --no-owner --file={shlex.quote(str(file))} {tool_url(engine.url)}"
    )
