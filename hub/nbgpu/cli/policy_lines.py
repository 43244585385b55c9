"""Budgets and quotas as lines of the command: what is set, and what a change of it does."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nbgpu.cli.lists import show_time, show_user_text
from nbgpu.cli.output import print_json, print_table
from nbgpu.core.policy_edits import PolicyEntry, PolicyKind, describe_fields
from nbgpu.core.units import render_price

if TYPE_CHECKING:
    from nbgpu.service.policy_desk import Difference, PolicyPreview
    from nbgpu.wiring.adapters import Adapters

MOST = 20  # lines of a kind
VERBS = {"add": "new", "change": "changed", "remove": "removed", "keep": "as it was"}
PLANNED = {"add": "will be new", "change": "will be changed", "remove": "will be removed", "keep": "stays as it is"}


def list_policies(site: "Adapters", kind: PolicyKind, *, as_json: bool) -> None:
    """Print what is set: that of nbgpu.toml, then that of the database."""
    found = site.policy_desk.entries(kind)
    if as_json:
        print_json([_plain(each) for each in found])
        return
    print_table(
        ["Name", "For", "What", "Set by"],
        [_row(each) for each in found],
        empty=f"No {kind} is set: [[{kind}]] in nbgpu.toml or `nbgpu {kind}s set` makes one.",
    )


def describe_preview(preview: "PolicyPreview", *, done: bool) -> list[str]:
    """Return the lines that say what changes did, or would do."""
    verbs = VERBS if done else PLANNED
    lines = [_describe(each, verbs[each.verb]) for each in preview.differences[:MOST]]
    if len(preview.differences) > len(lines):
        lines.append(f"… and {len(preview.differences) - len(lines)} more.")
    effect = preview.effect
    lines.append(f"Servers that run now of people it is for: {effect.concerned}.")
    for account in effect.overspent[:MOST]:
        spent, amount = render_price(account.spent), render_price(account.budget.amount)
        lines.append(f"{show_user_text(account.owner)} has spent {spent} of {amount} already.")
    for title, servers in (("Told, then stopped", effect.ending), ("May run for less long", effect.shortened)):
        if servers:
            lines.append(f"{title}: {', '.join(show_user_text(str(each)) for each in servers[:MOST])}.")
    return lines


def _describe(difference: "Difference", verb: str) -> str:
    fields = difference.change.fields
    if fields is None:
        return f"{difference.change.name}: {verb}."
    return f"{difference.change.name}: {verb}: {show_user_text(describe_fields(fields))}"


def _row(entry: PolicyEntry) -> list[str]:
    author = "nbgpu.toml" if entry.changed_at is None else f"{entry.author}, {show_time(entry.changed_at)}"
    what = "; ".join(_describe_rest(entry))
    return [entry.name, *(show_user_text(each) for each in (_whose(entry), what, author))]


def _describe_rest(entry: PolicyEntry) -> Iterable[str]:
    return (f"{key} {value}" for key, value in entry.fields.items() if key not in ("name", "user", "group"))


def _whose(entry: PolicyEntry) -> str:
    if "user" in entry.fields:
        return entry.fields["user"]
    return f"group {entry.fields['group']}" if "group" in entry.fields else "everybody"


def _plain(entry: PolicyEntry) -> dict[str, object]:
    changed_at = entry.changed_at.isoformat() if entry.changed_at is not None else None
    return {"name": entry.name, "fields": dict(entry.fields), "author": entry.author, "changed_at": changed_at}
