"""Budgets, quotas, prices and statements as the API answers them: the models of `core.plain`, which says the values."""

from datetime import date

from pydantic import ConfigDict, Field

from nbgpu.core.quotas import LimitKind
from nbgpu.core.windows import WindowKind
from nbgpu.service.operations import Answer, Instant


class BudgetAnswer(Answer):
    """A budget as it stands."""

    budget: str
    owner: str
    pool: bool
    amount_micro: int
    spent_micro: int
    held_micro: int
    left_micro: int
    period_start: Instant
    period_end: Instant
    forecast: Instant | None


class BudgetsAnswer(Answer):
    """Budgets."""

    budgets: list[BudgetAnswer]


class TermAnswer(Answer):
    """From when to when, in seconds since 1970."""

    start: int
    end: int


class WindowAnswer(Answer):
    """A span that usage is counted over."""

    kind: WindowKind
    length: int
    term: TermAnswer


class QuotaAnswer(Answer):
    """A limit as it stands; hours in seconds."""

    kind: LimitKind
    flavor: str | None
    window: WindowAnswer | None
    value: int
    used: int
    held: int
    resets_at: Instant | None


class QuotasAnswer(Answer):
    """A person's limits."""

    user: str
    quotas: list[QuotaAnswer]


class PriceAnswer(Answer):
    """What an hour of a SKU costs, from when on (seconds since 1970)."""

    model_config = ConfigDict(from_attributes=True, frozen=True)

    sku_id: str
    effective_from: int
    unit: str
    list_unit_price: int = Field(description="Micro-units.")
    currency: str


class PricesAnswer(Answer):
    """What holds now."""

    prices: list[PriceAnswer]


class AmountsAnswer(Answer):
    """What was used, and what it costs."""

    server_seconds: int
    leased_gpu_seconds: int
    busy_gpu_seconds: float | None
    cost_micro: int
    accrued_cost_micro: int
    estimated: bool
    currency: str


class LineAnswer(AmountsAnswer):
    """A line of a statement; of what it is, is in the fields that were asked for."""

    user: str | None = None
    group: str | None = None
    flavor: str | None = None
    sku: str | None = None
    session: str | None = None
    day: str | None = None
    month: str | None = None


class StatementAnswer(Answer):
    """A statement; both days are included."""

    from_: date = Field(alias="from")
    to: date
    by: list[str]
    lines: list[LineAnswer]
    totals: list[AmountsAnswer]
    timezone: str
    as_of: Instant
