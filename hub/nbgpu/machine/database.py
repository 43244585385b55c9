"""What `nbgpu db check` and the doctor look at in a database."""

from collections.abc import Callable
from enum import StrEnum

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from nbgpu.core.errors import StoreError
from nbgpu.core.findings import Finding, Level, fail, ok, warn
from nbgpu.store.check import find_damage, find_missing, try_writing
from nbgpu.store.place import network_file_system, sqlite_file
from nbgpu.store.revision import newest_revision, read_revision
from nbgpu.store.trouble import explain
from nbgpu.store.work import READS_ONLY

_RESTORE = "Stop the hub and restore a backup: nbgpu db restore FILE."


class Part(StrEnum):
    """What is looked at, in this order; each stands on those before it."""

    PLACE = "place"
    SCHEMA = "schema"
    CONTENT = "content"
    TABLES = "tables"
    LOG = "log"
    WRITING = "writing"


def examine_database(engine: Engine) -> tuple[Finding, ...]:
    """Return what is found, up to the first failure; nothing is changed, and no file is made."""
    findings: list[Finding] = []
    for part, check in _CHECKS.items():
        found = _look(check, engine)
        if found is not None:
            findings.append(found.about(part))
            if found.level is Level.FAIL:
                break
    return tuple(findings)


def _look(check: Callable[[Engine], Finding | None], engine: Engine) -> Finding | None:
    try:
        return check(engine)
    except DBAPIError as error:
        found, _, advice = explain(error, engine).partition(". ")
    except StoreError as error:
        found, _, advice = str(error).partition(". ")
    return fail(found, advice)


def _check_place(engine: Engine) -> Finding:
    if not _is_sqlite(engine):
        with _reading(engine) as connection:
            return ok(f"{connection.dialect.name} {'.'.join(map(str, connection.dialect.server_version_info or ()))}")
    file = sqlite_file(engine.url)
    if not file.is_file():
        return fail(f"{file} does not exist", f"{_RESTORE} Or start the hub, which makes an empty one.")
    network = network_file_system(file)
    if network is not None:
        return warn(f"{file} is on a network file system ({network})", "Move the data folder to a local disk.")
    return ok(str(file))


def _check_schema(engine: Engine) -> Finding | None:
    found, newest = read_revision(engine), newest_revision()
    if found is None:
        return fail("the database is empty", f"{_RESTORE} Or start the hub, which makes what is needed.")
    if found != newest:
        return fail(f"{found}, older than this nbgpu's {newest}", "Stop the hub, then: nbgpu db upgrade")
    return ok(found)


def _check_content(engine: Engine) -> Finding | None:
    if not _is_sqlite(engine):
        return None  # the server checks its pages and keys itself
    with _reading(engine) as connection:
        damage = find_damage(lambda statement: connection.exec_driver_sql(statement).all())
    return fail("; ".join(damage), _RESTORE) if damage else ok("pages, indexes and references are sound")


def _check_tables(engine: Engine) -> Finding:
    with _reading(engine) as connection:
        missing = find_missing(connection)
    return fail(f"missing: {', '.join(missing)}", _RESTORE) if missing else ok("all there")


def _check_log(engine: Engine) -> Finding | None:
    if not _is_sqlite(engine):
        return None
    with _reading(engine) as connection:
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
    if mode != "wal":
        return warn(f"{mode} instead of wal: readers wait for writers", "Move the data folder to a local disk.")
    return ok("written ahead (wal)")


def _check_writing(engine: Engine) -> Finding:
    try_writing(engine)
    return ok("can be written")


_CHECKS: dict[Part, Callable[[Engine], Finding | None]] = {
    Part.PLACE: _check_place,
    Part.SCHEMA: _check_schema,
    Part.CONTENT: _check_content,
    Part.TABLES: _check_tables,
    Part.LOG: _check_log,
    Part.WRITING: _check_writing,
}


def _is_sqlite(engine: Engine) -> bool:
    return engine.dialect.name == "sqlite"


def _reading(engine: Engine) -> Connection:
    return engine.execution_options(**{READS_ONLY: True}).connect()
