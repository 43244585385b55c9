"""Whether a database is sound: its pages, its references, its tables, and whether it can be written."""

from collections.abc import Callable, Iterable
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, text

from nbgpu.store.schema import Base
from nbgpu.store.work import unit_of_work

Run = Callable[[str], Iterable[Any]]
_SHOWN = 3  # of many findings


def find_damage(run: Run) -> list[str]:
    """Return what is wrong with a SQLite database's pages and references; `run` runs a statement, gives its rows."""
    pages = [str(row[0]) for row in run("PRAGMA integrity_check(20)")]
    if pages != ["ok"]:
        return pages[:_SHOWN]
    lost = [f"a row of {row[0]} refers to one of {row[2]} that is not there" for row in run("PRAGMA foreign_key_check")]
    return lost[:_SHOWN]


def find_missing(connection: Connection) -> list[str]:
    """Return the tables, columns and indexes that the newest schema has and this database lacks."""
    context = MigrationContext.configure(connection, opts={"compare_type": False})
    changes = compare_metadata(context, Base.metadata)
    return [_name(change) for change in changes if isinstance(change, tuple) and change[0].startswith("add_")]


def _name(change: tuple[Any, ...]) -> str:
    kind, what = change[0].removeprefix("add_"), change[-1]
    return f"{kind} {getattr(what, 'name', what)}"


def try_writing(engine: Engine) -> None:
    """Write, though nothing new, to the disk. Raises StoreError where that can't be."""
    with unit_of_work(engine) as db:
        db.execute(text("UPDATE alembic_version SET version_num = version_num"))
