"""One hub a database: two would each judge the other's servers lost.

The lock goes with the process that holds it, however that ends, so there is never a stale one.
"""

import fcntl
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Engine, text

from nbgpu.core.errors import StoreError

# A server takes a moment to notice that a hub was killed, and to drop its lock.
_TRIES, _BETWEEN_TRIES = 15, 0.2  # seconds
_HUB_LOCK = 7_206_148  # any number: PostgreSQL's advisory lock of the hub


def hold_hub_lock(engine: Engine) -> Callable[[], None]:
    """Take the database for this hub; return what gives it back. Raises StoreError when another hub has it."""
    return _lock_server(engine) if engine.dialect.name == "postgresql" else _lock_file(engine)


def _lock_file(engine: Engine) -> Callable[[], None]:
    path = Path(f"{engine.url.database}.hub-lock")
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise _taken(engine) from None
    return file.close


def _lock_server(engine: Engine) -> Callable[[], None]:
    connection = engine.connect()  # the lock is the connection's: it is kept out of the pool while we live
    key = {"key": _HUB_LOCK}
    for _ in range(_TRIES):
        if connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), key):
            connection.commit()
            break
        time.sleep(_BETWEEN_TRIES)
    else:
        connection.close()
        raise _taken(engine)

    def give_back() -> None:
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), key)
        connection.close()

    return give_back


def _taken(engine: Engine) -> StoreError:
    return StoreError(
        f"Another hub uses the database {engine.url!r}. End that one first, or give this one a database of its own: "
        "another data folder (DATA=…), or another url in [database]."
    )
