"""Schemas: an upgrade is whole or nothing, also when it is killed; what is newer or not ours is refused plainly."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from nbgpu.core.errors import DatabaseTaken, StoreError
from nbgpu.store import SqlAuditLog, hold_hub_lock, open_database
from nbgpu.store.backup import verify
from nbgpu.store.database import connect_database, ensure_schema
from nbgpu.store.revision import known_revisions, newest_revision, read_revision
from nbgpu.store.schema import Base
from store.old import KILL_AFTER_STATEMENTS, make_old, run_code

OLD = "0003"


def state_of(url):
    """Return a database's schema and tables."""
    engine = connect_database(url)
    try:
        return read_revision(engine), sorted(inspect(engine).get_table_names())
    finally:
        engine.dispose()


def kill_at_each_statement(urls):
    """Open each database in a process that is killed one statement later than the one before; return how they ended."""
    done = run_code(KILL_AFTER_STATEMENTS, *urls)
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


def opens_as_the_models_say(url):
    engine = open_database(url)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    engine.dispose()


@pytest.mark.case(17)
def test_an_upgrade_of_sqlite_that_is_killed_has_changed_nothing_and_is_done_again(tmp_path):
    make_old(f"sqlite:///{tmp_path / 'old.sqlite'}", OLD)
    before = state_of(f"sqlite:///{tmp_path / 'old.sqlite'}")
    files = [tmp_path / f"{number}.sqlite" for number in range(64)]
    for file in files:
        shutil.copy(tmp_path / "old.sqlite", file)
    ends = kill_at_each_statement([f"sqlite:///{file}" for file in files])
    assert ends[-1] == 0, "the upgrade has more statements than are tried here"
    killed = [file for file, end in zip(files, ends, strict=True) if end == -9]
    assert len(killed) > 20
    for file in killed:
        state = state_of(f"sqlite:///{file}")
        assert state == before or state[0] == newest_revision()
    for file in killed[-12:]:
        opens_as_the_models_say(f"sqlite:///{file}")


def test_an_upgrade_of_postgresql_that_is_killed_has_changed_nothing_and_is_done_again(postgresql):
    urls = [postgresql() for _ in range(14)]
    for url in urls:
        make_old(url, OLD)
    before = state_of(urls[0])
    # SQLAlchemy asks PostgreSQL a few things first, so that the later half dies within the migrations.
    assert set(kill_at_each_statement(urls)) == {-9}
    assert {state_of(url) == before for url in urls} == {True}
    for url in urls[-3:]:
        opens_as_the_models_say(url)


def test_processes_that_open_a_new_database_at_the_same_time_all_can(database_url):
    code = "import sys; from nbgpu.store import open_database; open_database(sys.argv[1])"
    processes = [
        subprocess.Popen([sys.executable, "-c", code, database_url], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [(each.communicate()[1], each.returncode) for each in processes] == [("", 0)] * 4


def test_an_upgrade_is_audited_and_keeps_the_sqlite_database_as_it_was(database_url, tmp_path):
    make_old(database_url, OLD)
    engine = connect_database(database_url)
    done = ensure_schema(engine, actor="ann (nbgpu db)")
    assert (done.before, done.after, done.changed) == (OLD, newest_revision(), True)
    row = SqlAuditLog(engine).latest(1)[0]
    assert (row.actor, row.action) == ("ann (nbgpu db)", "database.upgrade")
    assert row.detail.startswith(f"from {OLD} to {newest_revision()}")
    if engine.dialect.name == "sqlite":
        assert done.backup is not None
        assert str(done.backup) in row.detail
        assert verify(done.backup) == OLD
    else:
        assert done.backup is None
    assert not ensure_schema(engine).changed
    engine.dispose()


def test_a_schema_is_not_upgraded_beneath_a_hub_that_runs(database_url):
    make_old(database_url, OLD)
    with_old_code = connect_database(database_url)
    lock = hold_hub_lock(with_old_code)
    with pytest.raises(DatabaseTaken, match=f"has schema {OLD}, older than .* Restart the hub"):
        open_database(database_url)
    assert state_of(database_url)[0] == OLD
    lock.give_back()
    open_database(database_url).dispose()
    with_old_code.dispose()


@pytest.mark.parametrize(
    ("revision", "match"),
    [
        ("0999", r"has schema 0999 of a newer nbgpu; this one knows no newer than 0\d+\. Upgrade nbgpu"),
        ("4621fec11365", "is another program's: its tables are not those of nbgpu"),  # JupyterHub's
    ],
)
def test_a_newer_schema_and_another_programs_are_refused_and_left_alone(database_url, revision, match):
    engine = open_database(database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :it"), {"it": revision})
    with pytest.raises(StoreError, match=match):
        open_database(database_url)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == revision
    engine.dispose()


def test_a_database_with_tables_but_no_schema_of_ours_is_refused(database_url):
    engine = connect_database(database_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE users (id INTEGER)"))
    with pytest.raises(StoreError, match="is another program's"):
        open_database(database_url)
    assert inspect(engine).get_table_names() == ["users"]
    engine.dispose()


def test_revisions_are_numbered_without_a_gap():
    assert known_revisions() == tuple(f"{number:04}" for number in range(1, len(known_revisions()) + 1))


def test_opening_a_database_that_is_up_to_date_waits_for_no_writer(tmp_path):
    url = f"sqlite:///{tmp_path / 'nbgpu.sqlite'}"
    open_database(url).dispose()
    with closing(sqlite3.connect(tmp_path / "nbgpu.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        open_database(url, patience=0).dispose()
