"""A database that can't be used: a plain sentence, nothing starts, what runs goes on, and then all is well again.

The faults are real ones: a full and a read-only disk, another program's lock, broken files, a PostgreSQL that is away.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event, make_url, text
from tornado import web

from nbgpu.core.errors import StoreError
from nbgpu.core.findings import Level
from nbgpu.machine.database import examine_database
from nbgpu.store import SqlAuditLog, hold_hub_lock, open_database
from nbgpu.store.database import connect_database
from nbgpu.store.place import network_file_system
from support.disks import small_disk
from support.postgresql import running_server
from support.site_fixtures import make_site  # noqa: F401 - a fixture
from support.users import start

FLAVORS = ("one", "cpu")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A PostgreSQL that tests may stop."""
    with running_server(tmp_path_factory.mktemp("run")) as server:
        yield server


@contextmanager
def locked(file):
    """Hold the write lock, as another program does."""
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other
        if other.in_transaction:
            other.execute("ROLLBACK")


def note(engine, subject="it"):
    SqlAuditLog(engine).record(actor="test", action="test", subject=subject, detail="")


def noted(engine):
    return [row.subject for row in SqlAuditLog(engine).latest()]


# Starts


@contextmanager
def full_disk(site, disk):
    with closing(sqlite3.connect(disk.folder / "leases.sqlite")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else a little could still be written over it
    with disk.full():
        yield "can't be written: its disk is full"


@contextmanager
def locked_file(site, disk):
    def be_impatient(connection, *_):
        connection.execute("PRAGMA busy_timeout = 50")

    event.listen(site.leases._engine, "checkout", be_impatient)
    with locked(disk.folder / "leases.sqlite"):
        yield "is locked by another program"


@contextmanager
def read_only_disk(site, disk):
    site.leases._engine.dispose()
    with disk.read_only():
        yield "can't be written|can't be opened"
        site.leases._engine.dispose()


@contextmanager
def damaged_file(site, disk):
    """The file was overwritten; the fault is mended by putting the old content back."""
    site.leases._engine.dispose()
    file, kept = disk.folder / "leases.sqlite", disk.folder.parent / "kept"
    shutil.copy(file, kept)
    file.write_bytes(b"garbage " * 4096)
    yield "is damaged, or no database at all"
    site.leases._engine.dispose()
    shutil.copy(kept, file)


@contextmanager
def missing_folder(site, disk):
    site.leases._engine.dispose()
    moved = disk.folder / "moved"
    moved.mkdir()
    for file in disk.folder.glob("leases.sqlite*"):
        file.rename(moved / file.name)
    (disk.folder / "leases.sqlite").mkdir()
    yield "can't be opened"
    site.leases._engine.dispose()
    (disk.folder / "leases.sqlite").rmdir()
    for file in moved.iterdir():
        file.rename(disk.folder / file.name)


@pytest.mark.case(16)
@pytest.mark.parametrize("fault", [full_disk, locked_file, read_only_disk, damaged_file, missing_folder])
async def test_nothing_starts_meanwhile_what_runs_goes_on_and_the_next_start_works(make_site, tmp_path, fault):  # noqa: F811
    with small_disk(tmp_path / "disk") as disk:
        site = make_site(folder=disk.folder)
        ann, bob = site.users["ann"], site.users["bob"]
        await start(ann, profile="one")
        running = set(site.docker.by_id)
        with fault(site, disk) as sentence:
            for flavor in FLAVORS:
                with pytest.raises(web.HTTPError, match=sentence) as refused:
                    await start(bob, profile=flavor)
                assert refused.value.status_code == 503
                assert "Traceback" not in str(refused.value)
            assert await ann.spawner.poll() is None
            assert set(site.docker.by_id) == running, "no container without a lease, and none ended"
        assert [lease.server.username for lease in site.leases.open_leases()] == ["ann"]
        await start(bob, profile="one")
        assert {lease.server.username for lease in site.leases.open_leases()} == {"ann", "bob"}
        site.close()


# Openings


@pytest.mark.case(17)
def test_a_hub_that_starts_waits_for_who_has_the_database_locked(tmp_path):
    """As at a first boot: the file is new, and another process writes to it for longer than a writer waits."""
    file = tmp_path / "nbgpu.sqlite"
    with locked(file) as other:
        release = threading.Timer(1.2, lambda: other.execute("ROLLBACK"))
        release.start()
        engine = open_database(f"sqlite:///{file}", patience=0.4)
        release.join()
    hold_hub_lock(engine).give_back()
    assert [finding.level for finding in examine_database(engine)] == [Level.OK] * 6
    engine.dispose()


@pytest.mark.case(17)
def test_a_hub_does_not_wait_for_ever(tmp_path):
    file = tmp_path / "nbgpu.sqlite"
    began = time.monotonic()
    with locked(file), pytest.raises(StoreError, match=r"nbgpu\.sqlite is locked by another program.*Try again"):
        open_database(f"sqlite:///{file}", patience=0.1)
    assert time.monotonic() - began < 5
    open_database(f"sqlite:///{file}").dispose()


OPEN = """
import sys
from nbgpu.core.errors import StoreError
from nbgpu.store import open_database, hold_hub_lock
try:
    hold_hub_lock(open_database(sys.argv[1], patience=0.1))
except StoreError as error:
    print(error)
"""


@pytest.mark.case(17)
@pytest.mark.parametrize("new", [True, False])
def test_a_file_system_without_locks_is_refused_with_what_to_do(tmp_path, new):
    library = tmp_path / "no_locks.so"
    source = Path(__file__).with_name("no_locks.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    url = f"sqlite:///{tmp_path / 'nbgpu.sqlite'}"
    if not new:
        open_database(url).dispose()
    done = subprocess.run(
        [sys.executable, "-c", OPEN, url],
        env=os.environ | {"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert f"The file system of {tmp_path} has no locks that work" in done.stdout
    assert "Put the data folder on a local disk (DATA=…), or name a PostgreSQL" in done.stdout
    assert done.stderr == ""


def test_a_read_only_disk_is_refused_at_the_start_and_can_still_be_read(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        url = f"sqlite:///{disk.folder / 'nbgpu.sqlite'}"
        engine = open_database(url)
        note(engine)
        engine.dispose()
        with disk.read_only(), pytest.raises(StoreError, match="Make its folder writable|can't be written"):
            hold_hub_lock(connect_database(url))
        engine = open_database(url)
        hold_hub_lock(engine).give_back()
        engine.dispose()


def test_a_database_that_is_opened_read_only_is_refused_to_a_hub(tmp_path):
    file = tmp_path / "nbgpu.sqlite"
    open_database(f"sqlite:///{file}").dispose()
    engine = open_database(f"sqlite:///file:{file}?mode=ro&uri=true")
    assert noted(engine) == []
    with pytest.raises(StoreError, match="can't be written: it, its folder or its file system is read-only"):
        hold_hub_lock(engine)
    with pytest.raises(StoreError, match="can't be written"):
        note(engine)
    assert examine_database(engine)[-1].level is Level.FAIL
    engine.dispose()


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StoreError, match=rf"Its folder {tmp_path}/away does not exist\. Make it, or mend url"):
        open_database(f"sqlite:///{tmp_path}/away/nbgpu.sqlite")


def open_and_note(file):
    engine = open_database(f"sqlite:///{file}")
    try:
        note(engine)
    finally:
        engine.dispose()


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda content: b"garbage " * 512, "is damaged, or no database at all"),
        (lambda content: content[:100], "is damaged, or no database at all"),
        (lambda content: content[: len(content) // 2], "is damaged"),
        (lambda content: b"\0" * len(content), "is damaged, or no database at all"),
    ],
    ids=["garbage", "header only", "half", "zeros"],
)
def test_a_damaged_file_is_told_and_kept_as_it_is(tmp_path, spoil, match):
    file = tmp_path / "nbgpu.sqlite"
    open_database(f"sqlite:///{file}").dispose()
    content = spoil(file.read_bytes())
    file.write_bytes(content)
    engine = connect_database(f"sqlite:///{file}")
    failure = examine_database(engine)[-1]
    assert failure.level is Level.FAIL
    assert "restore" in failure.advice
    with pytest.raises(StoreError, match=match):
        open_and_note(file)
    assert file.read_bytes() == content
    engine.dispose()


def fill(audit, kept):
    """Add rows until that fails, and note in `kept` which were added."""
    for number in range(10_000):
        audit.record(actor="a", action="b", subject=str(number), detail="x" * 1000)
        kept.append(number)


def test_a_full_database_takes_nothing_half_and_the_next_thing_once_there_is_room(tmp_path):
    """SQLite's own limit stands for the disk where none can be mounted."""
    engine, limit = open_database(f"sqlite:///{tmp_path / 'nbgpu.sqlite'}"), ["60"]
    event.listen(
        engine, "checkout", lambda connection, *_: connection.execute(f"PRAGMA max_page_count = {limit[0]}").fetchall()
    )
    audit, kept = SqlAuditLog(engine), []
    with pytest.raises(StoreError, match="its disk is full"):
        fill(audit, kept)
    assert len(audit.latest(10_000)) == len(kept) > 0
    limit[0] = "100000"
    audit.record(actor="a", action="b", subject="after", detail="")
    assert noted(engine)[0] == "after"
    engine.dispose()


@pytest.mark.parametrize(
    ("mounts", "kind"),
    [
        ("/dev/sda1 / ext4 rw 0 0\n", None),
        ("/dev/sda1 / ext4 rw 0 0\nfiler:/x /data nfs4 rw 0 0\n", "nfs4"),
        ("filer:/x / nfs rw 0 0\n/dev/sda1 /data ext4 rw 0 0\n", None),
        ("//filer/x /data cifs rw 0 0\n", "cifs"),
        ("x /with\\040space fuse.sshfs rw 0 0\n", None),
        ("", None),
    ],
)
def test_network_file_systems_are_known(tmp_path, mounts, kind):
    (tmp_path / "mounts").write_text(mounts)
    assert network_file_system(Path("/data/nbgpu.sqlite"), tmp_path / "mounts") == kind


# PostgreSQL


def test_postgresql_that_is_stopped_is_told_and_works_again_when_it_is_back(server):
    engine = open_database(server.make())
    note(engine, "before")
    with server.stopped():
        with pytest.raises(StoreError, match=r"does not answer \(.*\)\. See that its server runs"):
            note(engine, "lost")
        with pytest.raises(StoreError, match="does not answer"):
            open_database(engine.url.render_as_string(hide_password=False))
    note(engine, "after")
    assert noted(engine) == ["after", "before"]
    engine.dispose()


def test_postgresql_whose_row_is_locked_is_not_waited_for_without_end(server):
    url = server.make()
    engine, other = open_database(url, patience=0.2), open_database(url)
    with other.begin() as connection:
        connection.execute(text("LOCK TABLE audit"))
        with pytest.raises(StoreError, match="is locked by another program"):
            note(engine)
    note(engine)
    engine.dispose()
    other.dispose()


def test_a_read_only_postgresql_is_refused_to_a_hub(server):
    url = server.make()
    open_database(url).dispose()
    name = url.partition("?")[0].rpartition("/")[2]
    server.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on;")
    engine = open_database(url)
    with pytest.raises(StoreError, match="can't be written: it is read-only, a standby perhaps"):
        hold_hub_lock(engine)
    with pytest.raises(StoreError, match="can't be written: it is read-only"):
        note(engine)
    engine.dispose()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda url: url.set(username="nobody"), r"refused the login \(.*role \"nobody\" does not exist"),
        (lambda url: url.set(database="nowhere"), "does not exist on that server"),
        (lambda url: url.set(host="nosuch.invalid", query={}), "has a host name that can't be resolved"),
        (lambda url: url.set(host="127.0.0.1", port=1, query={}), "does not answer"),
    ],
    ids=["user", "database", "host", "port"],
)
def test_a_wrong_address_is_told_with_what_is_wrong(server, change, match):
    url = change(make_url(server.make())).set(password="s3cret")
    with pytest.raises(StoreError, match=match) as refused:
        open_database(url.render_as_string(hide_password=False))
    assert "s3cret" not in str(refused.value)


def test_a_wrong_password_is_told(server):
    server.run("CREATE ROLE locked_out LOGIN PASSWORD 'right';")
    url = make_url(server.url).set(username="locked_out", password="wr0ng").render_as_string(hide_password=False)
    with server.asking_for_passwords(), pytest.raises(StoreError, match="refused the login.*PGPASSWORD") as refused:
        open_database(url)
    assert "wr0ng" not in str(refused.value)
