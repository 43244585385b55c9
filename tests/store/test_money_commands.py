"""`nbgpu prices`, `budgets`, `quotas` and `credit` as they are called, on a deployment's database."""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nbgpu.cli.main import app
from nbgpu.core.errors import InvalidOptions, UnknownUser
from nbgpu.core.leases import ServerRef
from nbgpu.core.menu import Choice
from nbgpu.settings import load
from nbgpu.wiring.adapters import Adapters
from nbgpu.wiring.deployment import open_deployment
from nbgpu.wiring.money import ensure_prices

COMMITTED = Path(__file__).parents[2] / "nbgpu.toml"
LIMITS = """
[[budget]]
name = "each"
amount = "10.00"
[[quota]]
gpu_hours = 20
window = "week"
servers = 3
"""


@pytest.fixture
def site(tmp_path):
    """A deployment with a budget and a quota, and a session of ann's that has run for an hour."""
    config = tmp_path / "nbgpu.toml"
    config.write_text(COMMITTED.read_text() + LIMITS)
    adapters = Adapters(open_deployment(tmp_path / "data"), load(config))
    ensure_prices(adapters)
    cpu = next(flavor for flavor in adapters.settings.flavors if flavor.slug == "cpu")
    lease = adapters.leases.acquire(ServerRef("ann"), Choice(cpu, "base"), "sha256:1", ())
    began = datetime.now(UTC) - timedelta(hours=1)
    adapters.leases.activate(lease.session_id, began)
    adapters.leases.release(lease.session_id, "stopped", began + timedelta(hours=1))
    adapters.metering.settle()
    yield adapters
    adapters.database.dispose()


@pytest.fixture
def nbgpu(site, tmp_path):
    """Call the command; return its output. It must succeed."""

    def nbgpu(*arguments: str) -> str:
        place = ["--data", str(tmp_path / "data"), "--config", str(tmp_path / "nbgpu.toml")]
        result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*arguments, *place], catch_exceptions=True)
        if result.exception is not None:
            raise result.exception
        return result.output

    return nbgpu


def test_a_budget_shows_what_is_spent_and_a_credit_gives_it_back(nbgpu, site):
    (account,) = json.loads(nbgpu("budgets", "--json"))
    assert (account["owner"], account["amount_micro"], account["spent_micro"]) == ("ann", 10_000_000, 20_000)
    given = ("credit", "ann", "0.02", "--reason", "=a fault", "--key", "fault-1")
    assert "0.02 USD given to ann." in nbgpu(*given)
    assert "was posted before: nothing is changed" in nbgpu(*given)
    (account,) = json.loads(nbgpu("budgets", "--json"))
    assert account["spent_micro"] == 0
    assert "taken from ann" in nbgpu("credit", "ann", "1", "--charge", "--reason", "a mistake")
    assert "1.00" in nbgpu("budgets")
    assert site.ledger.verify().broken_from is None
    line = site.ledger.charges()[-2]
    assert (line.charge_category, line.billed_cost, line.reason) == ("Credit", -20_000, "=a fault")
    assert {entry.action for entry in site.audit.latest()} >= {"ledger.credit"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("credit", "ann", "many", "--reason", "r"), "The amount “many” is not a price of at least 0"),
        (("credit", "ann", "1e30", "--reason", "r"), "The amount “1e30” is not a price .* up to 9 digits"),
        (("credit", "ann", "1e999999", "--reason", "r"), "The amount “1e999999” is not a price"),
        (("credit", "ann", "1_000", "--reason", "r"), "The amount “1_000” is not a price"),
        (("credit", "ann", "0", "--reason", "r"), "needs an amount above 0 and a --reason"),
        (("credit", "ann", "1", "--reason", " "), "needs an amount above 0 and a --reason"),
        (("credit", "ann", "1", "--reason", "r", "--session", "x"), "ann has no session x"),
        (("prices", "set", "b200:gpu:on-demand", "1"), "There is no SKU “b200:gpu:on-demand”"),
        (("prices", "set", "cpu:host:on-demand", "1e-9"), "The price “1e-9” is not a price of at least 0"),
        (("prices", "set", "cpu:host:on-demand", "1", "--from", "yesterday"), "“yesterday” is no time"),
        (("prices", "set", "cpu:host:on-demand", "1", "--from", "2026-01-01"), "is past: what was charged stays"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(nbgpu, site, arguments, message):
    before = site.ledger.charges(), site.prices.entries()
    with pytest.raises(InvalidOptions, match=message):
        nbgpu(*arguments)
    assert (site.ledger.charges(), site.prices.entries()) == before


def test_a_name_that_nobody_ever_had_is_taken_for_a_typing_error_unless_it_is_said_to_be_new(nbgpu, site):
    before = site.ledger.charges()
    with pytest.raises(UnknownUser, match="Nobody of the name “amn” has ever had a server.* for a new user give --new"):
        nbgpu("credit", "amn", "1", "--reason", "r")
    assert site.ledger.charges() == before
    assert "1.00 USD given to amn." in nbgpu("credit", "amn", "1", "--reason", "r", "--new")
    assert "1.00 USD taken from amn." in nbgpu("credit", "amn", "1", "--charge", "--reason", "known by now")


def test_an_account_without_a_name_is_told_by_its_number(nbgpu, site, monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    nbgpu("credit", "ann", "1", "--reason", "r")
    assert site.ledger.charges()[-1].author == "uid 4000000"


@pytest.mark.parametrize("arguments", [("credit", "b\udcffob", "1", "--reason", "r"), ("usage", "--user", "\udcff")])
def test_a_text_that_is_not_utf8_is_refused_in_words(arguments):
    """As a process: only there arguments are bytes."""
    command = [sys.executable, "-c", "from nbgpu.cli.main import main; main()", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert re.fullmatch("nbgpu: The argument “.*�.*” is not UTF-8. Type it .*\n", result.stderr)


def test_a_price_is_set_from_now_or_from_a_time_to_come(nbgpu):
    before = nbgpu("prices")
    assert "mig-1g:gpu:on-demand" in before
    assert "always" in before
    assert "cpu:host:on-demand: 0.05 USD an hour from" in nbgpu("prices", "set", "cpu:host:on-demand", "0.05")
    nbgpu("prices", "set", "cpu:host:on-demand", "0.07", "--from", f"{datetime.now(UTC).year + 2}-01-01T00:00")
    found = [each for each in json.loads(nbgpu("prices", "--json")) if each["sku_id"] == "cpu:host:on-demand"]
    assert [(each["list_unit_price_micro"], each["source"]) for each in found] == [(50_000, "admin"), (70_000, "admin")]


def test_quotas_of_a_person(nbgpu):
    found = {each["kind"]: each for each in json.loads(nbgpu("quotas", "ann", "--json"))}
    assert (found["gpu_seconds"]["value"], found["gpu_seconds"]["used"]) == (72_000, 0)
    assert (found["servers"]["value"], found["servers"]["used"]) == (3, 0)
    assert "20.00" in nbgpu("quotas", "ann")
