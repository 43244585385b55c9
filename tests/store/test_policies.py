"""Quotas and budgets that are set while the site runs: on both databases, each judgement reads those of now."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from nbgpu.core.authorize import Policies
from nbgpu.core.budgets import Budget
from nbgpu.core.errors import BudgetExceeded, ChangedMeanwhile, QuotaExceeded, StoreError, UnknownPolicy
from nbgpu.core.leases import ServerRef
from nbgpu.core.policy_edits import PolicyChange, PolicyEntry, PolicyKind
from nbgpu.core.prices import build_prices
from nbgpu.core.quotas import Scope, Who
from nbgpu.core.windows import Window, WindowKind
from nbgpu.store import SqlAuditLog, SqlLeaseStore
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.policies import SqlPolicies
from nbgpu.store.prices import SqlPrices

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
ONE = {"name": "one", "servers": "1"}
TINY = {"name": "tiny", "amount": "0.01", "window": "month"}
OF_FILE = Budget(name="file", who=Who(Scope.GROUP, "ml"), amount=5_000_000, window=Window(kind=WindowKind.MONTH))


def now() -> datetime:
    return NOW


def quota(fields: dict[str, str] | None = ONE, expected: int | None = None, name: str = "one") -> PolicyChange:
    return PolicyChange(kind=PolicyKind.QUOTA, name=name, fields=fields, expected=expected)


def budget(fields: dict[str, str] | None = TINY, expected: int | None = None, name: str = "tiny") -> PolicyChange:
    return PolicyChange(kind=PolicyKind.BUDGET, name=name, fields=fields, expected=expected)


@pytest.fixture
def editor(engine) -> SqlPolicies:
    """Another process than the one that starts servers."""
    return SqlPolicies(engine, Policies(budgets=(OF_FILE,)), now)


@pytest.fixture
def start(engine, devices, choose):
    """Start a server."""
    SqlPrices(engine, now).ensure(build_prices(choose().flavor, "USD", 0))
    store = SqlLeaseStore(engine, now, SqlPolicies(engine, Policies(budgets=(OF_FILE,)), now))

    def start(name: str, user: str = "ann"):
        return store.acquire(ServerRef(user, name), choose(), "sha256:1", devices)

    return start


def test_a_start_is_refused_by_a_quota_of_a_moment_ago_and_goes_once_it_is_removed(editor, start):
    start("first")
    editor.change([quota()], by="bill")
    with pytest.raises(QuotaExceeded, match="may have 1 at one time"):
        start("second")
    editor.change([quota({"name": "one", "servers": "2"})], by="bill")
    start("second")
    with pytest.raises(QuotaExceeded, match="may have 2 at one time"):
        start("third")
    editor.change([quota(None)], by="bill")
    start("third")


def test_a_budget_counts_at_once_at_a_start_and_for_what_runs(editor, start, engine):
    limits = SqlLimits(engine, SqlPolicies(engine, Policies(), now), now)
    assert limits.accounts("ann", []) == ()
    editor.change([budget()], by="bill")
    with pytest.raises(BudgetExceeded, match="can't pay for"):
        start("first")
    (account,) = limits.accounts("ann", [])
    assert (account.budget.name, account.budget.amount, account.left) == ("tiny", 10_000, 10_000)
    editor.change([budget(None)], by="bill")
    assert (limits.accounts("ann", []), limits.quotas("ann", [])) == ((), ())


def test_who_looked_at_what_is_no_more_changes_nothing(editor):
    assert editor.change([budget(expected=0)], by="bill") == 1
    with pytest.raises(ChangedMeanwhile, match="“tiny” was changed meanwhile by bill at 2026-03-10 12:00:00 UTC"):
        editor.change([budget(TINY | {"amount": "2.00"}, expected=0)], by="eve")
    (seen,) = editor.entries()
    editor.change([budget(TINY | {"amount": "3.00"}, expected=seen.revision)], by="eve")
    with pytest.raises(ChangedMeanwhile, match="by eve"):
        editor.change([budget(None, expected=seen.revision)], by="bill")
    editor.change([budget(None)], by="bill")
    with pytest.raises(ChangedMeanwhile, match="by bill"):
        editor.change([budget(expected=seen.revision)], by="eve")
    with pytest.raises(UnknownPolicy, match="no “tiny” that could be removed"):
        editor.change([budget(None)], by="eve")
    with pytest.raises(ChangedMeanwhile, match="is not there any more"):
        editor.change([quota(expected=7)], by="eve")
    assert editor.entries() == ()


def test_all_or_nothing_with_a_row_in_the_audit_log_for_each(editor, engine):
    with pytest.raises(UnknownPolicy, match="no “none”"):
        editor.change([budget(), quota(None, name="none")], by="bill")
    assert (editor.entries(), SqlAuditLog(engine).latest()) == ((), ())
    assert editor.change([budget(), quota()], by="bill") == 2
    assert editor.change([budget(), quota()], by="bill") == 0
    editor.change([quota(None)], by="eve")
    found = [(each.actor, each.action, each.subject, each.detail) for each in reversed(SqlAuditLog(engine).latest())]
    assert found == [
        ("bill", "budget.set", "tiny", "name tiny; amount 0.01; window month (before: nothing)"),
        ("bill", "quota.set", "one", "name one; servers 1 (before: nothing)"),
        ("eve", "quota.remove", "one", "nothing (before: name one; servers 1)"),
    ]


def test_of_two_editors_at_once_one_is_told(editor, engine):
    others = [SqlPolicies(engine, Policies(), now) for _ in range(4)]

    def edit(number: int) -> str:
        try:
            others[number].change([budget(TINY | {"amount": f"{number}.00"}, expected=0)], by=f"u{number}")
        except ChangedMeanwhile:
            return "told"
        return "done"

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(edit, range(4))) == ["done", "told", "told", "told"]


def test_a_budget_of_the_file_holds_before_one_of_its_name(editor):
    entry = PolicyEntry(kind=PolicyKind.BUDGET, name="file", fields={"name": "file", "amount": "1.00"})
    assert editor.build([entry]).budgets == (OF_FILE,)


def test_what_this_program_does_not_know_is_said(editor):
    entry = PolicyEntry(kind=PolicyKind.BUDGET, name="x", fields={"name": "x", "new": "1", "amount": "1.00"})
    with pytest.raises(StoreError, match="makes no sense to this nbgpu: new: there is no such key"):
        editor.build([entry])
