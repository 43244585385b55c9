"""Quotas and budgets that are set while the site runs: on both databases, each judgement reads those of now."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from nbgpu.core.authorize import Policies
from nbgpu.core.budgets import Budget
from nbgpu.core.errors import BudgetExceeded, ChangedMeanwhile, QuotaExceeded, StoreError, UnknownPolicy
from nbgpu.core.leases import ServerRef
from nbgpu.core.ledger import build_credit
from nbgpu.core.policy_edits import PolicyChange, PolicyEntry, PolicyKind
from nbgpu.core.prices import build_prices
from nbgpu.core.quotas import Scope, Who
from nbgpu.core.windows import Window, WindowKind
from nbgpu.store import SqlAuditLog, SqlLeaseStore
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.policies import SqlPolicies
from nbgpu.store.prices import SqlPrices
from nbgpu.store.statements import SqlStatements
from nbgpu.store.work import freeze, unit_of_work

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


def test_what_was_read_is_brought_up_to_date_in_the_order_in_which_it_was_set(editor, engine):
    reader = SqlPolicies(engine, Policies(), now)

    def read() -> list[tuple[str, int]]:
        with unit_of_work(engine, reads_only=True) as db:
            return [(each.name, each.amount) for each in reader.read(db).budgets]

    assert read() == []
    editor.change([budget(TINY | {"name": each}, name=each) for each in ("a", "b", "c")], by="bill")
    assert read() == [("a", 10_000), ("b", 10_000), ("c", 10_000)]
    editor.change([budget(TINY | {"name": "a", "amount": "2"}, name="a"), budget(None, name="b")], by="bill")
    assert read() == [("a", 2_000_000), ("c", 10_000)]
    editor.change([budget(TINY | {"name": "b"}, name="b")], by="bill")
    assert read() == [("a", 2_000_000), ("b", 10_000), ("c", 10_000)]


def test_who_looks_at_an_earlier_instant_sees_what_held_then(editor, engine):
    reader = SqlPolicies(engine, Policies(), now)
    editor.change([budget()], by="bill")
    with unit_of_work(engine, reads_only=True) as early:
        freeze(early)
        assert [each.name for each in reader.read(early).budgets] == ["tiny"]
        editor.change([budget(None), budget(TINY | {"name": "new"}, name="new")], by="bill")
        with unit_of_work(engine, reads_only=True) as late:
            assert [each.name for each in reader.read(late).budgets] == ["new"]
        assert [each.name for each in reader.read(early).budgets] == ["tiny"]
    with unit_of_work(engine, reads_only=True) as late:
        assert [each.name for each in reader.read(late).budgets] == ["new"]


def test_the_effect_says_whom_it_stops_and_whom_it_is_for(editor, engine, start):
    begun = NOW - timedelta(hours=2)
    leases = SqlLeaseStore(engine, now)
    for name, user in (("long", "ann"), ("other", "bob")):
        leases.activate(start(name, user).session_id, begun)
    limits = SqlLimits(engine, editor, now)
    limits.keep()

    def effect(change: PolicyChange, kind: PolicyKind):
        after = editor.build([PolicyEntry(kind=kind, name=change.name, fields=change.fields)])
        return limits.effect(after, {change.name})

    found = effect(budget(TINY | {"user": "ann"}), PolicyKind.BUDGET)
    assert (found.concerned, found.ending, found.shortened) == (1, (ServerRef("ann", "long"),), ())
    assert [(each.owner, each.spent, each.left) for each in found.overspent] == [("ann", 1_200_000, -1_190_000)]
    found = effect(quota({"name": "one", "longest": "3 h"}), PolicyKind.QUOTA)
    assert (found.concerned, found.ending) == (2, ())
    assert sorted(found.shortened, key=str) == [ServerRef("ann", "long"), ServerRef("bob", "other")]
    found = effect(budget(TINY | {"amount": "1000.00"}), PolicyKind.BUDGET)
    assert (found.concerned, found.ending, found.shortened, found.overspent) == (2, (), (), ())
    assert limits.accounts("ann", []) == (), "nothing was done"


def test_of_many_names_and_lines_those_that_are_not_there_are_found(engine, start):
    start("first")
    statements, ledger = SqlStatements(engine), SqlLedger(engine, now)
    assert statements.find_unknown(["ann", "bob", *map(str, range(1200))]) == {"bob", *map(str, range(1200))}
    lines = [
        build_credit(key=key, username="ann", amount=1, currency="USD", at=0, author="bill", reason="r") for key in "ab"
    ]
    ledger.post(lines[:1])
    assert ledger.find_new(lines) == (lines[1],)
    assert (ledger.post(lines), ledger.find_new(lines)) == (1, ())
