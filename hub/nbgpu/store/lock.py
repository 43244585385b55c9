"""One hub a database: two would each judge the other's servers lost.

The lock goes with the process that holds it, however that ends, so there is never a stale one.
"""

import errno
import fcntl
import time
from contextlib import suppress
from typing import IO, Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from nbgpu.core.errors import DatabaseTaken, StoreError
from nbgpu.store.place import no_locks, sqlite_file
from nbgpu.store.trouble import describe, explain, is_locked

# A server takes a moment to notice that a hub was killed, and to drop its lock.
_TRIES, _BETWEEN_TRIES = 15, 0.2  # seconds
_WRITE_TRIES = 4  # each as long as a writer waits: the hub's start can't be asked again by a click
_HUB_LOCK = 7_206_148  # any number: PostgreSQL's advisory lock of the hub


class HubLock(Protocol):
    """A database that is this process's."""

    def ensure(self) -> None:
        """See that the lock is still ours, and take it again where it was lost.

        Raises DatabaseTaken where another has it now, StoreError where the database can't be asked.
        """

    def give_back(self) -> None:
        """Let another have it."""


def hold_hub_lock(engine: Engine) -> HubLock:
    """Take the database for this hub. DatabaseTaken when another hub has it; StoreError when it can't be written."""
    lock = lock_database(engine)
    try:
        _check_writable(engine)
    except StoreError:
        lock.give_back()
        raise
    return lock


def lock_database(engine: Engine) -> HubLock:
    """Keep hubs away from a database, whatever state it is in. Raises DatabaseTaken when one has it; StoreError."""
    return _ServerLock(engine) if engine.dialect.name == "postgresql" else _FileLock(engine)


def _check_writable(engine: Engine) -> None:
    """Begin to write: a full disk is no reason not to start, one that is read-only is. Raises StoreError."""
    for tries_left in reversed(range(_WRITE_TRIES)):
        try:
            with engine.connect() as connection:
                connection.execute(_CHANGE_NOTHING)
                connection.rollback()  # so that nothing is written, and a full disk is not noticed
            return
        except DBAPIError as error:
            if not is_locked(error) or not tries_left:
                raise StoreError(explain(error, engine)) from error


class _FileLock:
    """A file beside SQLite's, which the kernel keeps locked as long as we have it open."""

    def __init__(self, engine: Engine) -> None:
        self._file = _open_locked(engine)

    def ensure(self) -> None:
        """Nothing but our end can take it."""

    def give_back(self) -> None:
        self._file.close()


def _open_locked(engine: Engine) -> IO[str]:
    file = sqlite_file(engine.url)
    try:
        lock = file.with_name(f"{file.name}.hub-lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise
    except BlockingIOError:
        raise _taken(engine) from None
    except OSError as error:
        raise StoreError(_describe(error, engine)) from error
    return lock


def _describe(error: OSError, engine: Engine) -> str:
    if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP):
        return no_locks(sqlite_file(engine.url).parent)
    return f"{describe(engine.url)} can't be locked for this hub: {error}. Make its folder writable for this account."


class _ServerLock:
    """PostgreSQL's advisory lock. It is a connection's: one is kept for it, and a server that restarts forgets both."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._backend: dict[str, object] = {}
        self.ensure()

    def ensure(self) -> None:
        try:
            if self._connection is None or not self._answers(self._connection):
                self._connection = self._take()
        except DBAPIError as error:
            raise StoreError(explain(error, self._engine)) from error

    def give_back(self) -> None:
        if self._connection is not None:
            with suppress(DBAPIError):
                self._connection.scalar(text("SELECT pg_advisory_unlock(:key)"), {"key": _HUB_LOCK})
            self._connection.close()
            self._connection = None

    def _answers(self, connection: Connection) -> bool:
        try:
            connection.scalar(text("SELECT 1"))
            connection.commit()
        except DBAPIError:
            connection.close()
            self._connection = None
            return False
        return True

    def _take(self) -> Connection:
        connection = self._engine.connect()
        try:
            self._end_lost_backend(connection)
            if not _try_lock(connection):
                raise _taken(self._engine)
            self._backend = dict(connection.execute(_OUR_BACKEND).mappings().one())
            connection.commit()
        except (DBAPIError, DatabaseTaken):
            connection.close()
            raise
        return connection

    def _end_lost_backend(self, connection: Connection) -> None:
        """End what the server may still have of a connection of ours that broke: it would keep the lock from us."""
        if self._backend:
            connection.execute(_END_BACKEND, self._backend)
            connection.commit()


_CHANGE_NOTHING = text("UPDATE alembic_version SET version_num = version_num")
_OUR_BACKEND = text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
_END_BACKEND = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :pid AND backend_start = :backend_start"
)


def _try_lock(connection: Connection) -> bool:
    for _ in range(_TRIES):
        taken = connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _HUB_LOCK})
        connection.commit()
        if taken:
            return True
        time.sleep(_BETWEEN_TRIES)
    return False


def _taken(engine: Engine) -> DatabaseTaken:
    return DatabaseTaken(
        f"Another hub uses the database {engine.url!r}. End that one first, or give this one a database of its own: "
        "another data folder (DATA=…), or another url in [database]."
    )
