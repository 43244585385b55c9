"""What a database's error means, in a sentence that says what was found and what to do.

SQLite tells by its error's name; PostgreSQL by SQLSTATE or, before there is a connection, by its text alone.
"""

import re
import sqlite3

from sqlalchemy import URL, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from nbgpu.store.place import sqlite_file

_AGAIN = "Try again in a minute."
_LOCKED = f"is locked by another program, which did not let go in time. {_AGAIN}"
_FULL = "can't be written: its disk is full. Nothing was changed. Free space there, then try again."
_READ_ONLY = "can't be written: it, its folder or its file system is read-only. Make it writable for this account."
_DAMAGED = "is damaged, or no database at all. Stop the hub and restore a backup: nbgpu db restore FILE."
_SQLITE = {
    "SQLITE_FULL": _FULL,
    "SQLITE_READONLY": _READ_ONLY,
    "SQLITE_PERM": _READ_ONLY,
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED,
    "SQLITE_IOERR": "can't be read or written: its disk failed. Look at the machine's log (dmesg).",
    "SQLITE_CANTOPEN": "can't be opened. Look at the modes of the file and of its folder: this account needs both.",
}
_STATES = {
    "53100": _FULL,
    "53300": f"has no connection free for us. {_AGAIN} Or raise max_connections there.",
    "25006": "can't be written: it is read-only, a standby perhaps. Name the primary in url of [database].",
    "42501": "can't be written: our role has not the right to. Make it the owner.",
    "55P03": _LOCKED,
    "40P01": _LOCKED,
    "57P0": f"has cut the connection, in a restart perhaps. {_AGAIN}",
    "08": f"has cut the connection, in a restart perhaps. {_AGAIN}",
    "XX00": "is damaged, its server says. Look at its log.",
}
_TEXTS = {
    "authentication failed|no password supplied|no pg_hba.conf entry|role .* does not exist": (
        "refused the login. Look at the user in url of [database], and at PGPASSWORD or ~/.pgpass."
    ),
    "database .* does not exist": "does not exist on that server. Make it (createdb), or mend url of [database].",
    "failed to resolve|could not translate": "has a host name that can't be resolved. Mend url of [database].",
    "starting up|shutting down": f"is just starting or stopping. {_AGAIN}",
    "refused|No such file|timeout|unreachable|connection is (lost|closed|bad)|closed the connection|terminat": (
        f"does not answer. See that its server runs and can be reached from here. {_AGAIN}"
    ),
}


def explain(error: SQLAlchemyError, engine: Engine) -> str:
    """Return the sentence for an error that a database gave; no password is in it."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = " ".join(str(cause).split())
    sentence = _find(cause, text)
    if sentence is None:
        return f"{describe(engine.url)} did not do what was asked ({text}). {_AGAIN}"
    found, _, advice = sentence.partition(". ")
    return f"{describe(engine.url)} {found} ({text}). {advice}"


def is_locked(error: DBAPIError) -> bool:
    """Whether another program's lock is all that stood in the way."""
    return error.orig is not None and _find(error.orig, "") == _LOCKED


def describe(url: URL) -> str:
    """Return how a database is called in a sentence."""
    if url.get_backend_name() == "sqlite":
        return f"The database {sqlite_file(url)}"
    return f"The database {url.set(drivername='postgresql').render_as_string(hide_password=True)}"


def _find(cause: BaseException, text: str) -> str | None:
    if isinstance(cause, sqlite3.Error):
        name: str = getattr(cause, "sqlite_errorname", "")
        return next((said for start, said in _SQLITE.items() if name.startswith(start)), None)
    state = getattr(cause, "sqlstate", None)
    if isinstance(state, str):
        return next((said for start, said in _STATES.items() if state.startswith(start)), None)
    return next((said for pattern, said in _TEXTS.items() if re.search(pattern, text)), None)
