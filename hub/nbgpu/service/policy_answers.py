"""What the API takes and answers about setting prices, quotas and budgets."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from nbgpu.core.budgets import Account
from nbgpu.core.policy_edits import PolicyEffect, PolicyEntry, PolicyKind
from nbgpu.service.operations import Answer, Body, Instant, SentInstant
from nbgpu.service.policy_desk import Difference, PolicyPreview
from nbgpu.service.policy_import import CreditImport
from nbgpu.service.price_change import PriceChange

Who = Annotated[str | None, Field(default=None, max_length=255)]


class BudgetBody(Body):
    """A budget, by the keys of nbgpu.toml."""

    user: Who = Field(default=None, description="User it is for.")
    group: Who = Field(default=None, description="Group that spends it together.")
    amount: str = Field(description='What may be spent in a window, like "100.00".')
    window: str | None = Field(default=None, description='"day", "week" or "month".')
    first_day: str | None = Field(default=None, description="First day of a term: 2026-10-01.")
    last_day: str | None = Field(default=None, description="Last day of that term.")
    alerts: list[int] | None = Field(default=None, description="Shares that are told, in percent.")
    grace: str | None = Field(default=None, description='How long servers go on when all is spent, like "10 min".')


class NewBudget(BudgetBody):
    """A budget with its name."""

    name: str = Field(description="Short name.")


class QuotaBody(Body):
    """A quota, by the keys of nbgpu.toml."""

    user: Who = Field(default=None, description="User it is for.")
    group: Who = Field(default=None, description="Group whose members each may have as much.")
    flavor: str | None = Field(default=None, description="Flavor that alone is counted and limited.")
    gpu_hours: str | int | float | None = Field(default=None, description="Hours of GPUs in `window`.")
    window: str | None = Field(default=None, description='"day", "week", "month", or a span like "7 d".')
    servers: int | None = Field(default=None, description="Servers at one time.")
    gpus: int | None = Field(default=None, description="GPUs at one time.")
    longest: str | None = Field(default=None, description='Longest session, like "4 h".')


class NewQuota(QuotaBody):
    """A quota with its name."""

    name: str = Field(description="Short name.")


class NewPrice(Body):
    """A price from a time on."""

    sku_id: str = Field(description="SKU, as the list of prices has it.")
    price: str = Field(description='Of an hour, like "1.20".')
    effective_from: SentInstant | None = Field(default=None, description="From when on it holds; null: from now on.")


class PolicyAnswer(Answer):
    """A quota or budget as it was set: its fields as texts, by the keys of nbgpu.toml."""

    kind: PolicyKind
    name: str = Field(description='"" for a quota of nbgpu.toml.')
    fields: dict[str, str]
    revision: int
    author: str
    changed_at: Instant | None = Field(description="null: it stands in nbgpu.toml, and is changed there alone.")


class PoliciesAnswer(Answer):
    """Quotas and budgets as they were set."""

    policies: list[PolicyAnswer]


class DifferenceAnswer(Answer):
    """One change."""

    name: str
    verb: str = Field(description='"add", "change", "remove" or "keep".')
    before: dict[str, str] | None
    after: dict[str, str] | None


class OverspentAnswer(Answer):
    """A budget of which more is spent than may be."""

    budget: str
    owner: str
    amount_micro: int
    spent_micro: int


class EffectAnswer(Answer):
    """What it does to servers that run now, each as "user/server"."""

    concerned: int = Field(description="Servers of people it is for.")
    ending: list[str] = Field(description="Are told and stopped, with their grace.")
    shortened: list[str] = Field(description="May run for less long than now.")
    overspent: list[OverspentAnswer]


class ChangeAnswer(Answer):
    """What was done; with `preview` what would be."""

    done: bool
    changes: list[DifferenceAnswer]
    effect: EffectAnswer


class CreditsAnswer(Answer):
    """What credits were given; with `preview` what would be."""

    done: bool
    given: int
    known: int = Field(description="Lines that were given before: nothing is done of them.")
    total_micro: int
    currency: str


class PriceChangeAnswer(Answer):
    """A price that was set; with `preview` would be."""

    done: bool
    sku_id: str
    list_unit_price: int = Field(description="Micro-units.")
    before_micro: int
    currency: str
    effective_from: int = Field(description="Seconds since 1970.")
    servers: int | None = Field(description="That run now and are charged by it from then on; null: not known.")


def to_texts(body: BaseModel, **more: str) -> dict[str, str]:
    """Return what was sent as the texts that a form has."""
    return {key: _to_text(value) for key, value in body.model_dump().items() if value is not None} | more


def answer_policy(entry: PolicyEntry) -> PolicyAnswer:
    """Return a policy as it is answered."""
    return PolicyAnswer(
        kind=entry.kind,
        name=entry.name,
        fields=dict(entry.fields),
        revision=entry.revision,
        author=entry.author,
        changed_at=entry.changed_at,
    )


def answer_change(preview: PolicyPreview, *, done: bool) -> ChangeAnswer:
    """Return what changes do."""
    return ChangeAnswer(
        done=done, changes=[_answer_difference(each) for each in preview.differences], effect=_answer(preview.effect)
    )


def answer_credits(found: CreditImport, currency: str, *, done: bool) -> CreditsAnswer:
    """Return what a file of credits does."""
    total = found.total
    return CreditsAnswer(done=done, given=len(found.charges), known=found.known, total_micro=total, currency=currency)


def answer_price(change: PriceChange, *, done: bool) -> PriceChangeAnswer:
    """Return what a price does."""
    price = change.price
    return PriceChangeAnswer(
        done=done,
        sku_id=price.sku_id,
        list_unit_price=price.list_unit_price,
        before_micro=change.before.list_unit_price,
        currency=price.currency,
        effective_from=price.effective_from,
        servers=change.servers,
    )


def _to_text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _answer_difference(found: Difference) -> DifferenceAnswer:
    before, after = found.before, found.change.fields
    return DifferenceAnswer(
        name=found.change.name,
        verb=found.verb,
        before=dict(before) if before is not None else None,
        after=dict(after) if after is not None else None,
    )


def _answer(effect: PolicyEffect) -> EffectAnswer:
    return EffectAnswer(
        concerned=effect.concerned,
        ending=[f"{each.username}/{each.servername}" for each in effect.ending],
        shortened=[f"{each.username}/{each.servername}" for each in effect.shortened],
        overspent=[_answer_overspent(each) for each in effect.overspent],
    )


def _answer_overspent(account: Account) -> OverspentAnswer:
    return OverspentAnswer(
        budget=account.budget.name, owner=account.owner, amount_micro=account.budget.amount, spent_micro=account.spent
    )
