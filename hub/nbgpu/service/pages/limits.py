"""The page of budgets and quotas: how they stand, and what was set; for who bills."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from nbgpu.core.budgets import Account
from nbgpu.core.policy_edits import PolicyKind
from nbgpu.core.texts import mark
from nbgpu.core.units import render_money
from nbgpu.service.handler import needed
from nbgpu.service.pages.base import BillerPage
from nbgpu.service.policy_desk import PolicyDesk

MOST = 200  # lines of a list
DONE = {
    "set": mark("It is set: it holds for the next start at once, and for what runs within seconds."),
    "removed": mark("It is removed."),
    "same": mark("Nothing is changed: it was so already."),
}
LABELS = {  # of the fields, by the keys of nbgpu.toml
    "name": mark("Name"),
    "user": mark("User"),
    "group": mark("Group"),
    "flavor": mark("Flavor"),
    "amount": mark("Amount"),
    "window": mark("Window"),
    "first_day": mark("First day"),
    "last_day": mark("Last day"),
    "alerts": mark("Alerts, in percent"),
    "grace": mark("Grace"),
    "gpu_hours": mark("GPU-hours"),
    "servers": mark("Servers at one time"),
    "gpus": mark("GPUs at one time"),
    "longest": mark("Longest session"),
}
KINDS = {PolicyKind.BUDGET: mark("Budget"), PolicyKind.QUOTA: mark("Quota")}


class LimitsHandler(BillerPage):
    """What the pages of budgets and quotas have in common."""

    @property
    def desk(self) -> PolicyDesk:
        """Budgets and quotas. 503 while the service begins."""
        return needed(self.books.policies)

    def find_kind(self, text: str) -> PolicyKind:
        """Return what is asked about; a budget where that is not said."""
        return PolicyKind.QUOTA if text in ("quota", "quotas") else PolicyKind.BUDGET


class LimitsPage(LimitsHandler):
    """How they stand, and what was set."""

    async def get(self) -> None:
        """Show them."""
        words = self.get_query_argument("q", "")
        accounts = [each for each in await asyncio.to_thread(self.books.limits.all_accounts) if _has(each, words)]
        entries = {kind: await asyncio.to_thread(self.desk.entries, kind) for kind in PolicyKind}
        found = {
            kind: [each for each in entries[kind] if words.casefold() in " ".join(each.fields.values()).casefold()]
            for kind in PolicyKind
        }
        self.show(
            "limits.html",
            accounts=accounts[:MOST],
            entries_by_kind=[(kind, found[kind][:MOST]) for kind in PolicyKind],
            hidden=max(0, len(accounts) - MOST) + sum(max(0, len(each) - MOST) for each in found.values()),
            words=words,
            money=render_money,
            currency=self.books.currency,
            labels=LABELS,
            done=DONE.get(self.get_query_argument("done", "")),
        )


def _has(account: Account, words: str) -> bool:
    return words.casefold() in f"{account.budget.name} {account.owner}".casefold()


def limit_routes(prefix: str, parts: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the routes under a path like "/services/nbgpu/"; `parts` is what all pages take."""
    from nbgpu.service.pages.limit_files import ImportPage, LimitsFile
    from nbgpu.service.pages.limit_forms import LimitForm, RemoveForm

    handlers: dict[str, Callable[..., Any]] = {
        "limits": LimitsPage,
        "limits/edit": LimitForm,
        "limits/remove": RemoveForm,
        "limits/import": ImportPage,
        "limits/file": LimitsFile,
    }
    return [(rf"{prefix}{path}", handler, parts) for path, handler in handlers.items()]
