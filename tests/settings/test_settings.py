"""nbgpu.toml: the committed file runs as it is, and each mistake is told with file, key, value and what is allowed."""

import re
from pathlib import Path

import pytest

from nbgpu.core.activity import Signal
from nbgpu.core.errors import SettingsError
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.idle_policy import find_policy
from nbgpu.settings import Settings, load
from nbgpu.settings.idle import CullingSettings, IdleSettings
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
        ("[[idle]]\nidle_limit = '14 min'", "idle_limit is below 15 min: people lose work by that; allow_short"),
        ("[[idle]]\nidle_limit = 'soon'", 'allowed is a number and s, min, h or d, like "8 h", or "never"'),
        ("[[idle]]\nflavor = 'b200'", 'an idle rule is for flavor "b200", which there is not'),
        ("[[idle]]\nmove_to = 'a100'", 'move_to = "a100", which is no flavor without a GPU'),
        (
            "[[flavor]]\nslug = 'lean'\ndisplay_name = 'Lean'\nkind = 'cpu'\ncpus = 1\nmemory = '1 GiB'\n"
            "images = ['base']\n[[idle]]\nmove_to = 'lean'",
            'move_to = "lean", which lacks image "pytorch" of flavor "mig-1g"',
        ),
        (
            "[[flavor]]\nslug = 'lean'\ndisplay_name = 'Lean'\nkind = 'cpu'\ncpus = 1\nmemory = '1 GiB'\n"
            "images = ['base', 'pytorch']\ngroups = ['staff']\n[[idle]]\nmove_to = 'lean'",
            'move_to = "lean", which not everybody it is for may take',
        ),
        ("[[idle]]\nquiet_hours = ['night']", 'allowed is days and times like "Mon-Fri 08:00-18:00"'),
        ("[[idle]]\nquiet_hours = ['Mon 25:00-26:00']", 'allowed is days and times like "Mon-Fri 08:00-18:00"'),
        ("[[idle]]\nsignals = []", ": signals = []: is not allowed"),
        ("[[idle]]\nsignals = ['mood']", "'person', 'kernel', 'terminal', 'cpu'"),
        ("[culling]\nevery = '1 h'", 'culling: every = "1 h": is not allowed; allowed is less than or equal to'),
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


def test_idle_rules_become_a_policy(tmp_path):
    file = tmp_path / "nbgpu.toml"
    text = """
        [[idle]]
        idle_limit = "2 h"
        warn = ["5 min", "30 min"]
        quiet_hours = ["Fri-Mon 22:00-06:00"]
        [[idle]]
        gpu = true
        gpu_idle_limit = "1 h"
        move_to = "cpu"
        cpu_percent = 20
        signals = ["kernel", "gpu"]
        [[idle]]
        user = "dean"
        idle_limit = "never"
        gpu_idle_limit = "20 s"
        allow_short = true
    """
    file.write_text(COMMITTED.read_text().partition("[[idle]]")[0] + text)
    rules = load(file, images=IMAGES).idle_site.rules
    policy = find_policy(rules, "ann", (), "a100", has_gpu=True)
    assert (policy.idle_limit, policy.gpu_idle_limit, policy.move_to) == (7200, 3600, "cpu")
    assert (policy.warn, policy.signals) == ((1800, 300), {Signal.KERNEL, Signal.GPU})
    assert (policy.thresholds.cpu_percent, policy.thresholds.gpu_percent) == (20, 2)
    assert policy.quiet_hours[0].days == {4, 5, 6, 0}
    assert find_policy(rules, "ann", (), "cpu", has_gpu=False).gpu_idle_limit is None
    dean = find_policy(rules, "dean", (), "a100", has_gpu=True)
    assert (dean.idle_limit, dean.gpu_idle_limit) == (None, 20)


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
    "culling": CullingSettings,
    "idle": IdleSettings,
}


def test_every_setting_is_in_the_reference():
    reference = (ROOT / "docs/reference/settings.md").read_text()
    assert set(SECTIONS) == set(Settings.model_fields)
    for section, model in SECTIONS.items():
        heading = f"[[{section}]]" if section in ("flavor", "quota", "budget", "idle") else f"[{section}]"
        _, _, part = reference.partition(f"## `{heading}`")
        part = part.partition("\n## ")[0]
        for name, field in model.model_fields.items():
            row = next((line for line in part.splitlines() if line.startswith(f"| `{field.alias or name}` |")), None)
            assert row is not None, f"{section}.{name} is not in docs/reference/settings.md"
            assert field.description in row.replace("\\|", "|"), f"{section}.{name}: the description there differs"
