"""The database: its schema is what the models say, its settings are those that leases need."""

import sqlite3
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from nbgpu.core.errors import StoreError
from nbgpu.store import open_database
from nbgpu.store.schema import Base


def test_the_migrations_make_what_the_models_say(engine):
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_opening_again_changes_nothing(engine, database_url, store, devices, choose):
    from nbgpu.core.leases import ServerRef

    store.acquire(ServerRef("ann"), choose(), "sha256:1", devices)
    again = open_database(database_url)
    assert len(store.open_leases()) == 1
    again.dispose()


def test_sqlite_is_set_up_for_leases(engine):
    with engine.connect() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
        }
    assert settings == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2, "busy_timeout": 10_000}


def test_a_writer_waits_for_another(database_url, engine, store, devices, choose, tmp_path):
    """A lock held by somebody else delays a lease; it does not fail it."""
    import threading

    from nbgpu.core.leases import ServerRef

    with closing(sqlite3.connect(tmp_path / "nbgpu.sqlite", isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
        timer.start()
        store.acquire(ServerRef("ann"), choose(), "sha256:1", devices)
        timer.join()
    assert len(store.open_leases()) == 1


@pytest.mark.parametrize("content", [b"not a database at all" * 100])
def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path, content):
    file = tmp_path / "nbgpu.sqlite"
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"nbgpu\.sqlite.*can't be used"):
        open_database(f"sqlite:///{file}")
    assert file.read_bytes() == content
