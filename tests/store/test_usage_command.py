"""`nbgpu usage`: screen, CSV and JSON tell the same, exactly; a tampered ledger is found; mistakes are sentences."""

import csv
import io
import json
import re
import sys
from datetime import timedelta
from decimal import Decimal

import pytest
from sqlalchemy import text

from nbgpu.cli.main import main
from nbgpu.core.leases import ServerRef
from nbgpu.core.periods import to_seconds
from nbgpu.core.prices import build_prices
from nbgpu.store import SqlLeaseStore, open_database
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.metering import SqlMetering
from nbgpu.store.prices import SqlPrices
from nbgpu.wiring.deployment import open_deployment
from store.charges import charge
from store.conftest import START, Clock  # 2026-03-29 00:30 UTC

PEOPLE = ("ann", "=HYPERLINK(1)", "bob\x1b[31m")
MARCH = ("--from", "2026-03-20", "--to", "2026-04-10")


@pytest.fixture
def deployment(tmp_path):
    return open_deployment(tmp_path / "data")


@pytest.fixture
def database(deployment):
    engine = open_database(deployment.database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def run(deployment, monkeypatch, capsys):
    """Run `nbgpu usage …` on the deployment; return its exit code, output and errors."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["nbgpu", "usage", *map(str, arguments), "--data", str(deployment.data)])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return end.value.code, said.out, said.err

    return run


@pytest.fixture
def sessions(database, devices, choose):
    """Three people's sessions; bob's end was seen by nobody. All are posted."""
    store, choice = SqlLeaseStore(database, Clock()), choose(gpus=1)
    SqlPrices(database).ensure(build_prices(choice.flavor, "USD", 0))
    metering = SqlMetering(database)
    for number, person in enumerate(PEOPLE):
        lease = store.acquire(ServerRef(person), choice, "sha256:1", devices)
        store.activate(lease.session_id, START)
        end = START + timedelta(seconds=7001 + 3333 * number)
        metering.note_seen([lease.session_id], end)
        store.release(lease.session_id, "stopped", None if number == 2 else end)
    metering.settle()


def test_screen_csv_and_json_tell_the_same_sums_exactly(run, database, sessions):
    posted = sum(each.billed_cost for each in SqlLedger(database).charges())
    _, screen, _ = run(*MARCH, "--by", "user", "--by", "day", "--timezone", "Asia/Kathmandu")
    (total,) = re.findall(r"Total .* ([\d.]+) USD", screen)
    _, table, _ = run(*MARCH, "--by", "user", "--by", "day", "--timezone", "Asia/Kathmandu", "--csv", "-")
    rows = list(csv.DictReader(io.StringIO(table)))
    _, plain, _ = run(*MARCH, "--by", "user", "--by", "day", "--timezone", "Asia/Kathmandu", "--json")
    found = json.loads(plain)
    assert Decimal(total) == sum(Decimal(row["cost"]) for row in rows) == Decimal(posted) / 1_000_000
    assert sum(line["cost_micro"] for line in found["lines"]) == found["totals"][0]["cost_micro"] == posted
    assert len(rows) == len(found["lines"]) >= 3
    assert (found["from"], found["to"], found["timezone"]) == ("2026-03-20", "2026-04-10", "Asia/Kathmandu")
    assert {row["busy_gpu_seconds"] for row in rows} == {""}
    assert {line["busy_gpu_seconds"] for line in found["lines"]} == {None}


def test_csv_is_as_rfc_4180_has_it_and_no_name_is_a_formula(run, sessions, tmp_path):
    file = tmp_path / "march.csv"
    assert run(*MARCH, "--csv", file) == (0, "", "")
    content = file.read_bytes().decode()
    assert content.startswith("user,server_seconds,leased_gpu_seconds,busy_gpu_seconds,cost,accrued_cost,")
    assert content.count("\r\n") == content.count("\n") == 4
    rows = list(csv.reader(io.StringIO(content)))
    assert [row[0] for row in rows[1:]] == ["'=HYPERLINK(1)", "ann", PEOPLE[2]]
    assert [row[1:3] for row in rows[1:]] == [["10334", "10334"], ["7001", "7001"], ["13667", "13667"]]
    assert [row[6] for row in rows[1:]] == ["false", "false", "true"]
    assert list(tmp_path.glob(".march*")) == []


def test_a_file_that_cant_be_written_is_told(run, sessions, tmp_path):
    code, _, error = run(*MARCH, "--csv", tmp_path / "nowhere" / "x.csv")
    assert (code, "x.csv can't be written: No such file or directory" in error) == (1, True)


def test_the_screen_marks_what_nobody_saw_and_no_name_reaches_the_terminal(run, sessions):
    code, said, _ = run(*MARCH)
    assert code == 0
    assert "\x1b" not in said
    assert re.search(r"bob\?\[31m .* estimated", said)
    assert "the end of a session was seen by nobody" in said
    assert re.search(r"ann +1\.94 +1\.94 +n/a +1\.1668\d* USD", said)


def test_the_present_month_is_shown_unless_another_is_asked_for(run, sessions):
    assert "Nothing was used." in run()[1]
    assert "ann" in run("--month", "2026-03")[1]
    assert "ann" not in run("--month", "2026-04")[1]
    assert "ann" not in run("--month", "2026-03", "--user", "nobody")[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--month", "2026-13"), "--month must be a date like 2026-11."),
        (("--month", "2026-03-05"), "--month must be a date like 2026-11."),
        (("--from", "yesterday"), "--from must be a date like 2026-11-30."),
        (("--from", "0001-01-01"), "--from must be a date like 2026-11-30."),
        (("--to", "2026-03-05"), "--to needs --from: the first day."),
        (("--from", "2026-03-05", "--to", "2026-03-01"), "--from 2026-03-05 is after --to 2026-03-01."),
        (("--month", "2026-03", "--from", "2026-03-01"), "Give either --month, or --from and --to."),
        (("--timezone", "../etc/passwd"), "There is no time zone “../etc/passwd”"),
        (
            ("--from", "2011-12-30", "--to", "2011-12-30", "--timezone", "Pacific/Apia"),
            "No statement can be made: there is no day",
        ),
    ],
)
def test_a_mistake_is_told_in_a_sentence(run, database, arguments, sentence):
    code, said, error = run(*arguments)
    assert (code, said) == (1, "")
    assert error.startswith(f"nbgpu: {sentence}")


def test_the_export_for_finops_has_every_line_that_begins_in_the_time(run, database, sessions, deployment):
    _, said, _ = run(*MARCH, "--focus", "-")
    rows = list(csv.DictReader(io.StringIO(said)))
    charges = SqlLedger(database).charges()
    assert len(rows) == len(charges)
    assert sum(Decimal(row["BilledCost"]) for row in rows) * 1_000_000 == sum(each.billed_cost for each in charges)
    assert {row["BillingAccountId"] for row in rows} == {deployment.prefix}


def test_a_ledger_as_it_was_posted_is_said_to_be_and_a_changed_one_is_not(run, database, sessions):
    code, said, _ = run("verify")
    head = re.findall(r"Newest digest: ([0-9a-f]{64})", said)[0]
    assert (code, "The ledger is as it was posted" in said) == (0, True)
    SqlLedger(database).post([charge(to_seconds(START), 60, charge_key="later")])
    assert run("verify", "--head", head)[0] == 0
    assert json.loads(run("verify", "--json")[1])["broken_from"] is None
    with database.begin() as connection:
        connection.execute(text("UPDATE charges SET billed_cost = billed_cost - 1 WHERE id = 3"))
    code, said, _ = run("verify")
    assert (code, "NOT as it was posted" in said) == (1, True)


def test_a_ledger_that_was_cut_off_is_found_by_a_digest_that_was_kept(run, database, sessions):
    SqlLedger(database).post([charge(to_seconds(START), 60, charge_key="later")])
    head = json.loads(run("verify", "--json")[1])["head"]
    with database.begin() as connection:
        connection.execute(text("DELETE FROM charges WHERE charge_key = 'later'"))
        connection.execute(text("DELETE FROM seals WHERE id = (SELECT max(id) FROM seals)"))
    assert run("verify")[0] == 0, "the rest is as it was"
    assert run("verify", "--head", head)[0] == 1
