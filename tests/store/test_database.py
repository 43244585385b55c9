"""The database: its schema is what the models say, its settings are those that leases need."""

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from nbgpu.core.errors import StoreError
from nbgpu.core.leases import ServerRef
from nbgpu.store import SqlAuditLog, SqlHomes, SqlLeaseStore, hold_hub_lock, open_database
from nbgpu.store.schema import Base


def test_the_migrations_make_what_the_models_say(engine):
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_opening_again_changes_nothing(engine, database_url, store, devices, choose):
    store.acquire(ServerRef("ann"), choose(), "sha256:1", devices)
    again = open_database(database_url)
    assert len(store.open_leases()) == 1
    again.dispose()


def test_sqlite_is_set_up_for_leases(sqlite_url):
    engine = open_database(sqlite_url)
    with engine.connect() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
        }
    engine.dispose()
    assert settings == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2, "busy_timeout": 10_000}


def test_a_reader_waits_for_no_writer(sqlite_url, tmp_path):
    engine = open_database(sqlite_url)
    store = SqlLeaseStore(engine)
    with closing(sqlite3.connect(tmp_path / "nbgpu.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # with the busy timeout, a reader that waited would fail after ten seconds
        assert (store.open_leases(), store.find_server(ServerRef("ann")), store.held_devices()) == (
            (),
            None,
            frozenset(),
        )
        other.execute("ROLLBACK")
    engine.dispose()


def test_a_writer_waits_for_another(sqlite_url, devices, choose, tmp_path):
    """A lock held by somebody else delays a lease; it does not fail it."""
    engine = open_database(sqlite_url)
    store = SqlLeaseStore(engine)
    with closing(sqlite3.connect(tmp_path / "nbgpu.sqlite", isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
        timer.start()
        store.acquire(ServerRef("ann"), choose(), "sha256:1", devices)
        timer.join()
    assert len(store.open_leases()) == 1
    engine.dispose()


def test_when_all_connections_are_in_use_it_says_so(engine, monkeypatch):
    monkeypatch.setattr(engine.pool, "_timeout", 0.01)
    held = [engine.connect() for _ in range(engine.pool.size() + engine.pool._max_overflow)]
    with pytest.raises(StoreError, match="QueuePool limit"):
        SqlLeaseStore(engine).open_leases()
    for connection in held:
        connection.close()


@pytest.mark.parametrize("content", [b"not a database at all" * 100])
def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path, content):
    file = tmp_path / "nbgpu.sqlite"
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"nbgpu\.sqlite is damaged, or no database.*\(file is not a database\)"):
        open_database(f"sqlite:///{file}")
    assert file.read_bytes() == content


def test_a_second_hub_on_a_database_is_refused_until_the_first_ends(database_url):
    first, second = open_database(database_url), open_database(database_url)
    lock = hold_hub_lock(first)
    with pytest.raises(StoreError, match="Another hub uses the database"):
        hold_hub_lock(second)
    lock.give_back()
    hold_hub_lock(second).give_back()
    first.dispose()
    second.dispose()


def test_a_hub_that_was_killed_leaves_no_lock(database_url):
    code = (
        "import os, sys; from nbgpu.store import *;"
        "held = hold_hub_lock(open_database(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, database_url], check=False).returncode == -9
    engine = open_database(database_url)
    hold_hub_lock(engine).give_back()
    engine.dispose()


def test_a_home_keeps_the_name_it_was_first_given(engine):
    homes = SqlHomes(engine)
    assert homes.ensure("ann", "home-ann") == "home-ann"
    assert homes.ensure("ann", "another-rule-ann") == "home-ann"
    assert homes.ensure("bob", "home-ann") == "home-ann-2", "nobody gets somebody else's"


def test_an_archived_home_is_never_given_out_again(engine):
    homes = SqlHomes(engine)
    homes.ensure("stu-01", "home-stu-01")
    assert homes.archive("stu-01") == "home-stu-01"
    assert homes.archive("stu-01") is None
    assert homes.ensure("stu-01", "home-stu-01") == "home-stu-01-2"
    assert [(home.volume, home.archived_at is None) for home in homes.all()] == [
        ("home-stu-01-2", True),
        ("home-stu-01", False),
    ]


def test_the_audit_log_gives_the_newest_first_and_cuts_texts(engine):
    audit = SqlAuditLog(engine)
    for number in range(3):
        audit.record(actor="admin", action="test", subject=f"s{number}", detail="x" * 5000)
    assert [row.subject for row in audit.latest(2)] == ["s2", "s1"]
    assert len(audit.latest(1)[0].detail) == 1000


def test_a_password_in_the_url_is_not_shown():
    with pytest.raises(StoreError) as error:
        open_database("postgresql://nbgpu:s3cret@127.0.0.1:1/nbgpu?connect_timeout=1")
    assert "s3cret" not in str(error.value)


def test_a_database_that_fails_is_an_error_of_ours_and_the_next_call_works(sqlite_url, tmp_path, devices, choose):
    engine = open_database(sqlite_url)
    store = SqlLeaseStore(engine)
    with closing(sqlite3.connect(tmp_path / "nbgpu.sqlite")) as other:
        other.execute("ALTER TABLE sessions RENAME TO elsewhere")
    for call in (store.open_leases, lambda: store.acquire(ServerRef("ann"), choose(), "sha256:1", devices)):
        with pytest.raises(StoreError, match="Try again in a minute"):
            call()
    with closing(sqlite3.connect(tmp_path / "nbgpu.sqlite")) as other:
        other.execute("ALTER TABLE elsewhere RENAME TO sessions")
    assert store.open_leases() == ()
    engine.dispose()
