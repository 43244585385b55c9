"""`nbgpu db`: what is found wrong is told with what to do, nothing is changed by looking, nobody reads a traceback."""

import json
import sqlite3
import stat
import sys
from contextlib import closing

import pytest
from sqlalchemy import text

from nbgpu.cli.main import main
from nbgpu.core.findings import Level
from nbgpu.machine.database import examine_database
from nbgpu.store import SqlAuditLog, hold_hub_lock, open_database
from nbgpu.store.database import connect_database
from nbgpu.store.revision import newest_revision
from nbgpu.wiring.deployment import open_deployment
from store.old import make_old


@pytest.fixture
def data(tmp_path):
    return open_deployment(tmp_path / "data").data


@pytest.fixture
def run(data, monkeypatch, capsys):
    """Run `nbgpu db …` on the deployment; return its exit code, output and errors."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["nbgpu", "db", *map(str, arguments), "--data", str(data)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return end.value.code, said.out, said.err

    return run


def url(data):
    return f"sqlite:///{data / 'nbgpu.sqlite'}"


def drop_index(connection):
    connection.execute(text("DROP INDEX uq_leases_open_slot"))


def drop_table(connection):
    connection.execute(text("DROP TABLE homes"))


def set_revision(revision):
    return lambda connection: connection.execute(text(f"UPDATE alembic_version SET version_num = '{revision}'"))


@pytest.mark.parametrize(
    ("spoil", "subject", "found", "advice"),
    [
        (drop_index, "tables", "missing: index uq_leases_open_slot", "nbgpu db restore FILE"),
        (drop_table, "tables", "missing: table homes", "nbgpu db restore FILE"),
        (set_revision("0999"), "schema", "schema 0999 of a newer nbgpu", "Upgrade nbgpu"),
        (set_revision("abcdef"), "schema", "is another program's", "a database of its own"),
    ],
)
def test_what_is_wrong_is_found_and_told_with_what_to_do(database_url, spoil, subject, found, advice):
    engine = open_database(database_url)
    assert {finding.level for finding in examine_database(engine)} == {Level.OK}
    with engine.begin() as connection:
        spoil(connection)
    failure = examine_database(engine)[-1]
    assert (failure.level, failure.subject) == (Level.FAIL, subject)
    assert found in failure.found
    assert advice in failure.advice
    engine.dispose()


def test_a_row_that_refers_to_nothing_is_found(sqlite_url, tmp_path):
    engine = open_database(sqlite_url)
    with closing(sqlite3.connect(tmp_path / "nbgpu.sqlite")) as other, other:
        other.execute("INSERT INTO leases (session_id, position, device_uuid, slot, slots) VALUES ('x', 0, 'G', 0, 1)")
    assert "a row of leases refers to one of sessions" in examine_database(engine)[-1].found
    engine.dispose()


def test_an_index_that_disagrees_with_its_table_is_found(sqlite_url, tmp_path):
    engine = open_database(sqlite_url)
    engine.dispose()
    with closing(sqlite3.connect(tmp_path / "nbgpu.sqlite")) as other, other:
        other.execute("PRAGMA writable_schema = ON")
        index = other.execute("SELECT * FROM sqlite_master WHERE name = 'ix_audit_recorded_at'").fetchone()
        other.execute("DELETE FROM sqlite_master WHERE name = 'ix_audit_recorded_at'")
    SqlAuditLog(engine).record(actor="a", action="b", subject="not in the index", detail="")
    engine.dispose()
    with closing(sqlite3.connect(tmp_path / "nbgpu.sqlite")) as other, other:
        other.execute("PRAGMA writable_schema = ON")
        other.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", index)
    failure = examine_database(engine)[-1]
    assert (failure.level, failure.subject) == (Level.FAIL, "content")
    engine.dispose()


def test_a_log_that_is_not_written_ahead_is_a_warning(sqlite_url, tmp_path, monkeypatch):
    engine = open_database(sqlite_url)
    monkeypatch.setattr("nbgpu.machine.database.network_file_system", lambda file: "nfs4")
    found = examine_database(engine)
    assert (found[0].level, found[0].advice) == (Level.WARN, "Move the data folder to a local disk.")
    assert found[-1].subject == "writing", "a warning ends nothing"
    engine.dispose()


def test_looking_at_a_database_that_is_not_there_makes_none(run, data):
    code, said, _ = run("check", "--json")
    assert (code, [finding["subject"] for finding in json.loads(said)]) == (1, ["place"])
    assert not (data / "nbgpu.sqlite").exists()


def test_check_of_a_sound_database(run, data):
    open_database(url(data)).dispose()
    code, said, _ = run("check", "--json")
    findings = json.loads(said)
    assert code == 0
    assert [each["subject"] for each in findings] == ["place", "schema", "content", "tables", "log", "writing"]
    assert {each["level"] for each in findings} == {"ok"}
    code, said, _ = run("check")
    assert code == 0
    assert "can be written" in said


def test_upgrade_says_what_it_did_and_who_did_it_is_audited(run, data):
    make_old(url(data), "0003")
    assert run("check")[0] == 1
    code, said, _ = run("upgrade")
    assert code == 0
    assert f"upgraded from 0003 to {newest_revision()}" in said
    assert str(data / "nbgpu.sqlite.before-upgrade-of-0003-") in said
    engine = connect_database(url(data))
    assert SqlAuditLog(engine).latest(1)[0].actor.endswith("(nbgpu db)")
    engine.dispose()
    assert "up to date, nothing to do" in run("upgrade")[1]


def test_a_backup_drill_while_a_hub_runs_and_after_it_ended(run, data, tmp_path):
    engine = open_database(url(data))
    lock = hold_hub_lock(engine)
    file = tmp_path / "backup.sqlite"
    code, said, _ = run("backup", file)
    assert (code, stat.S_IMODE(file.stat().st_mode)) == (0, 0o600)
    assert f"schema {newest_revision()}, verified" in said
    assert run("backup", file)[::2] == (
        1,
        f"nbgpu: {file} is there already and is kept. Name another file, or overwrite it with --force.\n",
    )
    assert run("backup", file, "--force")[0] == 0
    code, _, error = run("restore", file)
    assert (code, "Another hub uses the database" in error) == (1, True)
    lock.give_back()
    code, said, _ = run("restore", file)
    assert code == 0
    assert "Kept: the database that was there is" in said
    engine.dispose()


def test_an_older_program_refuses_a_newer_database_in_a_sentence(run, data):
    engine = open_database(url(data))
    with engine.begin() as connection:
        set_revision("0999")(connection)
    engine.dispose()
    code, _, error = run("upgrade")
    assert code == 1
    assert error.startswith(f"nbgpu: The database {data / 'nbgpu.sqlite'} has schema 0999 of a newer nbgpu")
    assert error.count("\n") == 1
