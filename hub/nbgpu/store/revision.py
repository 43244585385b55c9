"""Which schema a database has, and whether this program knows it."""

import re
from functools import cache
from pathlib import Path

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect

from nbgpu.core.errors import StoreError
from nbgpu.store.trouble import describe
from nbgpu.store.work import READS_ONLY

_OURS = re.compile(r"\d{4}")


def script_config() -> Config:
    """Return alembic's configuration: where our migrations lie."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


@cache
def known_revisions() -> tuple[str, ...]:
    """Return the schemas that this program knows, oldest first."""
    return tuple(sorted(script.revision for script in ScriptDirectory.from_config(script_config()).walk_revisions()))


def newest_revision() -> str:
    """Return the schema that this program works with."""
    return known_revisions()[-1]


def read_revision(engine: Engine) -> str | None:
    """Return the schema of a database; None for an empty one. Raises StoreError for one that is not ours or newer."""
    reading = engine.execution_options(**{READS_ONLY: True})
    with reading.begin() as connection:
        found = MigrationContext.configure(connection).get_current_heads()
        tables = inspect(connection).get_table_names()
    if not found and not tables:
        return None
    return check_revision(", ".join(found), describe(engine.url))


def check_revision(revision: str, where: str) -> str:
    """Return a schema's name where this program knows it. Raises StoreError that names the database as `where`."""
    if revision in known_revisions():
        return revision
    if _OURS.fullmatch(revision):
        raise StoreError(
            f"{where} has schema {revision} of a newer nbgpu; this one knows no newer than {newest_revision()}. "
            "Upgrade nbgpu, or restore a backup that is older: nbgpu db restore FILE."
        )
    raise StoreError(
        f"{where} is another program's: its tables are not those of nbgpu. Give nbgpu a database of its own in url of "
        "[database]."
    )
