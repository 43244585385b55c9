"""`nbgpu budgets set` and its like as they are called, on a deployment's database."""

import json

import pytest

from nbgpu.core.errors import InvalidOptions, QuotaExceeded, UnknownPolicy
from nbgpu.core.leases import ServerRef
from nbgpu.core.menu import Choice
from store.test_money_commands import nbgpu, site

__all__ = ["nbgpu", "site"]


def test_a_quota_is_set_shown_holds_and_is_removed(nbgpu, site):
    said = nbgpu("quotas", "set", "none", "--servers", "0", "--preview")
    assert ("none: will be new: name none" in said, "Nothing is done: this is a preview" in said) == (True, True)
    assert "none: new: name none; servers 0" in nbgpu(
        "quotas", "set", "none", "--user", "bob", "--servers", "0"
    ).replace("user bob; ", "")
    assert "servers" in nbgpu("quotas", "bob")
    assert nbgpu("quotas", "show", "bob") == nbgpu("quotas", "bob")
    cpu = next(flavor for flavor in site.settings.flavors if flavor.slug == "cpu")
    with pytest.raises(QuotaExceeded, match="may have 0 at one time"):
        site.leases.acquire(ServerRef("bob"), Choice(cpu, "base"), "sha256:1", ())
    assert "none: will be removed.\n" in nbgpu("quotas", "remove", "none", "--preview")
    assert "none: removed.\n" in nbgpu("quotas", "remove", "none")
    with pytest.raises(UnknownPolicy, match="no “none”"):
        nbgpu("quotas", "remove", "none")


def test_a_budget_of_the_file_is_not_changed_here(nbgpu):
    with pytest.raises(InvalidOptions, match="“each” is set in nbgpu.toml"):
        nbgpu("budgets", "set", "each", "--amount", "1.00")
    with pytest.raises(UnknownPolicy, match="“each” is set in nbgpu.toml"):
        nbgpu("budgets", "remove", "each")
    assert "ann" in nbgpu("budgets")


def test_what_is_set_is_listed_with_who_set_it(nbgpu):
    assert "gpu_hours 20" in " ".join(nbgpu("quotas", "list").split())
    nbgpu("budgets", "set", "course", "--group", "ml", "--amount", "5.00")
    of_file, course = json.loads(nbgpu("budgets", "list", "--json"))
    assert (of_file["name"], of_file["changed_at"]) == ("each", None)
    assert (course["name"], course["fields"]["group"], course["fields"]["amount"]) == ("course", "ml", "5.00")
    said = " ".join(nbgpu("budgets", "list").split())
    for part in ("each", "everybody", "nbgpu.toml", "course", "group ml", "amount 5.00", course["author"]):
        assert part in said


def test_a_lowered_budget_says_what_is_spent(nbgpu):
    said = nbgpu("budgets", "set", "ann", "--user", "ann", "--amount", "0.01")
    assert "ann has spent" in said
    assert "of 0.01 already" in said


def test_files_are_imported_once(nbgpu, site, tmp_path):
    budgets, credits = tmp_path / "b.csv", tmp_path / "c.csv"
    budgets.write_text("name,user,amount\nann,ann,20.00\n")
    credits.write_text("user;amount;reason\nann;2.50;Course\n")
    assert "ann: new: name ann; user ann; amount 20.00" in nbgpu("budgets", "import", str(budgets))
    assert "ann: as it was" in nbgpu("budgets", "import", str(budgets))
    assert "1 credits of 2.50 USD in all would be given; 0 were before" in nbgpu(
        "credits", "import", str(credits), "--preview"
    )
    assert "1 credits of 2.50 USD in all are given" in nbgpu("credits", "import", str(credits))
    assert "0 credits of 0.00 USD in all are given; 1 were before" in nbgpu("credits", "import", str(credits))
    budgets.write_text("name,user,amount\nann,ann,twenty\n")
    with pytest.raises(InvalidOptions, match='line 2: amount = "twenty": is not allowed'):
        nbgpu("budgets", "import", str(budgets))
    with pytest.raises(InvalidOptions, match="none.csv can't be read"):
        nbgpu("quotas", "import", str(tmp_path / "none.csv"))
