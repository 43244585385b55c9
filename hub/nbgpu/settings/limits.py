"""What [[quota]] and [[budget]] of nbgpu.toml may hold."""

from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from nbgpu.core.budgets import Budget
from nbgpu.core.periods import Period, to_seconds
from nbgpu.core.quotas import QuotaPolicy, Scope, Who
from nbgpu.core.units import parse_span
from nbgpu.core.windows import Window, WindowKind
from nbgpu.settings.fields import Price, Section, Slug, Span

_CALENDAR = ("day", "week", "month")
Percent = Annotated[int, Field(ge=1, le=100)]


class ForSomebody(Section):
    """A table that is for a user, a group, or without either for everyone."""

    user: str | None = Field(None, min_length=1, max_length=255, description="User it is for.")
    group: str | None = Field(None, min_length=1, max_length=255, description="Group it is for.")

    @model_validator(mode="after")
    def _is_for_one(self) -> Self:
        if self.user is not None and self.group is not None:
            raise ValueError("user and group: give one of them, or neither for everyone")
        return self

    @property
    def who(self) -> Who:
        """The people it is for."""
        if self.user is not None:
            return Who(Scope.USER, self.user)
        return Who(Scope.GROUP, self.group) if self.group is not None else Who(Scope.EVERYONE)


class QuotaSettings(ForSomebody):
    """What each person may have; without `user` and `group` it is for everyone."""

    user: str | None = Field(
        None, min_length=1, max_length=255, description="User it is for; it holds before those of groups."
    )
    group: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="Group whose members each may have as much; of several groups' the largest holds.",
    )
    flavor: Slug | None = Field(None, description="Flavor that alone is counted and limited; without it all are.")
    gpu_hours: Decimal | None = Field(
        None,
        ge=0,
        max_digits=12,
        decimal_places=4,
        description="Hours of GPUs in `window`; a slice or slot is one GPU.",
    )
    window: str = Field(
        "week", description='"day", "week" or "month" (by the calendar), or a span like "7 d" (rolling).'
    )
    servers: int | None = Field(None, ge=0, description="Servers at one time.")
    gpus: int | None = Field(None, ge=0, description="GPUs at one time.")
    longest: Span | None = Field(
        None, description='Longest session, like "4 h", where the flavor has no shorter limit.'
    )

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if all(each is None for each in (self.gpu_hours, self.servers, self.gpus, self.longest)):
            raise ValueError("limits nothing: give gpu_hours, servers, gpus or longest")
        parse_window(self.window)
        return self

    def to_policy(self) -> QuotaPolicy:
        """Return the domain's policy."""
        return QuotaPolicy(
            who=self.who,
            flavor=self.flavor,
            gpu_seconds=int(self.gpu_hours * 3600) if self.gpu_hours is not None else None,
            window=parse_window(self.window),
            servers=self.servers,
            gpus=self.gpus,
            longest=int(self.longest.total_seconds()) if self.longest is not None else None,
        )


class BudgetSettings(ForSomebody):
    """What may be spent; without `user` and `group` it is for each person."""

    name: Slug = Field(description="Short name, as alerts and the command show it.")
    user: str | None = Field(
        None, min_length=1, max_length=255, description="User it is for; it holds before one for everyone."
    )
    group: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="Group that spends it together: a pool, which pays for its members.",
    )
    amount: Price = Field(description='What may be spent in a window, like "100.00".')
    window: Literal["day", "week", "month"] = Field("month", description="When it begins anew, by the calendar.")
    first_day: date | None = Field(None, description="First day of a term, instead of `window`: a TOML date.")
    last_day: date | None = Field(None, description="Last day of that term.")
    alerts: list[Percent] = Field([50, 80, 100], description="Shares of the amount, in percent, that are told.")
    grace: Span = Field(
        timedelta(minutes=10), description="How long servers go on when all is spent, to save what they can."
    )

    @model_validator(mode="after")
    def _term_is_whole(self) -> Self:
        if (self.first_day is None) != (self.last_day is None):
            raise ValueError("first_day and last_day: give both, or neither and a window")
        if self.first_day is not None and self.last_day is not None and self.last_day < self.first_day:
            raise ValueError("last_day is before first_day")
        return self

    def to_budget(self, zone: tzinfo) -> Budget:
        """Return the domain's budget; a term begins and ends at midnight of `zone`."""
        if self.first_day is not None and self.last_day is not None:
            window = Window(kind=WindowKind.TERM, term=_to_term(self.first_day, self.last_day, zone))
        else:
            window = Window(kind=WindowKind(self.window))
        return Budget(
            name=self.name,
            who=self.who,
            amount=self.amount,
            window=window,
            alerts=tuple(sorted(set(self.alerts))),
            grace=int(self.grace.total_seconds()),
        )


def parse_window(text: str) -> Window:
    """Return the window of a text like "week" or "7 d". ValueError says what is allowed."""
    if text in _CALENDAR:
        return Window(kind=WindowKind(text))
    try:
        length = int(parse_span(text).total_seconds())
    except ValueError:
        length = 0
    if length < 60:
        raise ValueError('window: "day", "week" or "month", or a span of at least a minute like "7 d"')
    return Window(kind=WindowKind.ROLLING, length=length)


def _to_term(first: date, last: date, zone: tzinfo) -> Period:
    start, end = (to_seconds(datetime.combine(day, time(), zone)) for day in (first, last + timedelta(days=1)))
    return Period(start, end)
