"""nbgpu.toml: the committed file runs as it is, and each mistake is told with file, key, value and what is allowed."""

import re
from pathlib import Path

import pytest

from nbgpu.core.errors import SettingsError
from nbgpu.core.flavors import FlavorKind
from nbgpu.settings import Settings, load
from nbgpu.settings.limits import BudgetSettings, QuotaSettings
from nbgpu.settings.schema import (
    AuthSettings,
    BillingSettings,
    DatabaseSettings,
    EngineSettings,
    FlavorSettings,
    GpuSettings,
    HomeSettings,
    HubSettings,
)

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "nbgpu.toml"
IMAGES = {"base", "pytorch"}


def test_the_committed_file_has_one_of_each_kind():
    flavors = load(COMMITTED, images=IMAGES).flavors
    assert {flavor.kind for flavor in flavors} == set(FlavorKind)
    assert any(flavor.gpus > 1 for flavor in flavors)


def test_prices_and_sizes_are_integers():
    flavor = next(flavor for flavor in load(COMMITTED).flavors if flavor.slug == "mig-1g")
    assert (flavor.price_per_hour, flavor.memory, flavor.shm) == (450_000, 4 * 2**30, 2 * 2**30)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"2 GiB"', '"2 gigs"', 'flavor "cpu": memory = "2 gigs": is not allowed; allowed is a number and B, KiB'),
        ("cpus = 2", "cpus = -1", 'flavor "cpu": cpus = -1: is not allowed; allowed is greater than 0'),
        ("cpus = 2", 'cpus = "many"', 'flavor "cpu": cpus = "many": is not allowed'),
        ("slots = 4", "slots = 1", 'flavor "t4-shared": kind = "shared" needs slots of at least 2'),
        ('slug = "cpu"', 'slug = "cpu"\ncolour = "red"', 'flavor "cpu": colour: there is no such key'),
        ('slug = "cpu"', 'slug = "CPU only"', 'flavor "CPU only": slug = "CPU only": is not allowed'),
        ('slug = "cpu"', "", "flavor number 1: slug: is missing"),
        ('kind = "mig"', 'kind = "mog"', "is not allowed; allowed is 'gpu', 'mig', 'shared' or 'cpu'"),
        ('mig_profile = "1g.10gb"', "", 'flavor "mig-1g": kind = "mig" needs mig_profile'),
        ('"0.02"', '"-1"', 'flavor "cpu": price_per_hour = "-1": is not allowed; allowed is a price of at least 0'),
        ('slug = "mig-2g"', 'slug = "mig-1g"', 'two flavors have the slug "mig-1g"'),
        ('shm = "512 MiB"', 'shm = "5 GiB"', "shm must not be larger than memory"),
        ("cpus = 2", "cpus = 2\ngpus = 3", 'gpus has no meaning for kind = "cpu"'),
        ('["base", "pytorch"]', "[]", 'flavor "cpu": images = []: is not allowed'),
        ('["base", "pytorch"]', '["bse"]', 'images = "bse": there is no such image; allowed: base, pytorch'),
        ('"0.02"', '"0.02"\nhost_price_per_hour = "0.01"', 'host_price_per_hour has no meaning for kind = "cpu"'),
        ('"0.45"', '"0.45"\nhost_price_per_hour = "0.5"', "host_price_per_hour must not be more than price_per_hour"),
        (
            'currency = "USD"',
            'timezone = "Mars"',
            'billing: timezone = "Mars": is not allowed; allowed is a name of the tz',
        ),
        ('driver = "auto"', 'driver = "amd"', 'gpus: driver = "amd": is not allowed; allowed is'),
        ('currency = "USD"', 'currency = "dollars"', 'billing: currency = "dollars": is not allowed'),
        ("[billing]", "[database]\nurl = 'mysql://x'\n[billing]", 'database: url = "mysql://x": is not allowed'),
        ("[billing]", "[biling]", "biling: there is no such key"),
        ("[billing]", "[billing", "is not valid TOML"),
    ],
)
def test_a_mistake_is_told_with_file_key_and_value(tmp_path, old, new, message):
    file = tmp_path / "nbgpu.toml"
    text = COMMITTED.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(SettingsError, match=re.escape(message)) as error:
        load(file, images=IMAGES)
    assert str(error.value).startswith(str(file))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[[quota]]\nuser = 'a'\ngroup = 'b'\ngpus = 1", "quota number 1: user and group: give one of them"),
        ("[[quota]]\nuser = 'a'", "quota number 1: limits nothing: give gpu_hours, servers, gpus or longest"),
        ("[[quota]]\ngpu_hours = 1\nwindow = 'year'", 'window: "day", "week" or "month", or a span'),
        ("[[quota]]\ngpus = -1", "quota number 1: gpus = -1: is not allowed; allowed is greater than or equal to 0"),
        ("[[quota]]\nflavor = 'b200'\ngpus = 1", 'a quota is for flavor "b200", which there is not'),
        ("[[budget]]\nname = 'x'", 'budget "x": amount: is missing'),
        ("[[budget]]\nname = 'x'\namount = '1'\nalerts = [0]", 'budget "x": alerts[0] = 0: is not allowed'),
        ("[[budget]]\nname = 'x'\namount = '1'\nfirst_day = 2026-09-01", "first_day and last_day: give both"),
        (
            "[[budget]]\nname = 'x'\namount = '1'\nfirst_day = 2026-09-01\nlast_day = 2026-08-01",
            "last_day is before first_day",
        ),
        ("[[budget]]\nname = 'x'\namount = '1'\n" * 2, 'two budgets have the name "x"'),
    ],
)
def test_a_mistake_in_a_limit_is_told(tmp_path, table, message):
    file = tmp_path / "nbgpu.toml"
    file.write_text(f"{COMMITTED.read_text()}\n{table}\n")
    with pytest.raises(SettingsError, match=re.escape(message)):
        load(file, images=IMAGES)


def test_limits_become_policies(tmp_path):
    file = tmp_path / "nbgpu.toml"
    text = """
        [[quota]]
        group = "ml"
        gpu_hours = 1.5
        window = "7 d"
        longest = "4 h"
        [[budget]]
        name = "term"
        group = "ml"
        amount = "100.00"
        first_day = 2026-03-01
        last_day = 2026-03-31
    """
    file.write_text(COMMITTED.read_text().replace("[billing]", "[billing]\ntimezone = 'Europe/Berlin'", 1) + text)
    policies = load(file, images=IMAGES).policies
    (quota,), (budget,) = policies.quotas, policies.budgets
    assert (quota.gpu_seconds, quota.longest, quota.window.length) == (5400, 4 * 3600, 7 * 86400)
    assert budget.window.term.seconds == 31 * 86400 - 3600, "the clocks go forward in it"
    assert (budget.amount, budget.alerts, budget.grace) == (100_000_000, (50, 80, 100), 600)


def test_all_mistakes_are_told_at_once(tmp_path):
    file = tmp_path / "nbgpu.toml"
    file.write_text(COMMITTED.read_text().replace('"2 GiB"', '"2"', 1).replace('"USD"', '"x"', 1))
    with pytest.raises(SettingsError) as error:
        load(file)
    assert len(str(error.value).splitlines()) == 2


def test_a_long_value_is_cut(tmp_path):
    file = tmp_path / "nbgpu.toml"
    file.write_text(COMMITTED.read_text().replace('"USD"', f'"{"x" * 5000}"', 1))
    with pytest.raises(SettingsError) as error:
        load(file)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_an_unreadable_file_is_told(tmp_path, content):
    file = tmp_path / "nbgpu.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match="can't be read"):
        load(file)


SECTIONS = {
    "hub": HubSettings,
    "auth": AuthSettings,
    "engine": EngineSettings,
    "gpus": GpuSettings,
    "homes": HomeSettings,
    "database": DatabaseSettings,
    "billing": BillingSettings,
    "flavor": FlavorSettings,
    "quota": QuotaSettings,
    "budget": BudgetSettings,
}


def test_every_setting_is_in_the_reference():
    reference = (ROOT / "docs/reference/settings.md").read_text()
    assert set(SECTIONS) == set(Settings.model_fields)
    for section, model in SECTIONS.items():
        heading = f"[[{section}]]" if section in ("flavor", "quota", "budget") else f"[{section}]"
        _, _, part = reference.partition(f"## `{heading}`")
        part = part.partition("\n## ")[0]
        for name, field in model.model_fields.items():
            row = next((line for line in part.splitlines() if line.startswith(f"| `{field.alias or name}` |")), None)
            assert row is not None, f"{section}.{name} is not in docs/reference/settings.md"
            assert field.description in row.replace("\\|", "|"), f"{section}.{name}: the description there differs"
