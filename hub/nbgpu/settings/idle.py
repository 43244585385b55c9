"""What [culling] and [[idle]] of nbgpu.toml may hold: when a server is idle, and what then happens."""

import re
from datetime import time, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from nbgpu.core.activity import Signal, Thresholds
from nbgpu.core.idle_policy import SHORTEST, IdlePolicy, IdleRule, QuietHours
from nbgpu.core.units import parse_span
from nbgpu.settings.fields import Section, Size, Slug, Span
from nbgpu.settings.limits import ForSomebody

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_QUIET = re.compile(r"(\w{3})(?:-(\w{3}))? (\d\d):(\d\d)-(\d\d):(\d\d)")
_ALLOWED = 'days and times like "Mon-Fri 08:00-18:00" or "Sat 22:00-02:00"'


def parse_quiet_hours(text: object) -> QuietHours:
    """Return the hours of a text like "Mon-Fri 08:00-18:00". ValueError says what is allowed."""
    match = _QUIET.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[1] not in _DAYS or (match[2] or match[1]) not in _DAYS:
        raise ValueError(_ALLOWED)
    first, last = _DAYS.index(match[1]), _DAYS.index(match[2] or match[1])
    days = [(first + each) % 7 for each in range((last - first) % 7 + 1)]
    try:
        return QuietHours(frozenset(days), time(int(match[3]), int(match[4])), time(int(match[5]), int(match[6])))
    except ValueError:
        raise ValueError(_ALLOWED) from None


def parse_limit(text: object) -> timedelta | Literal["never"]:
    """Return the span of a text like "2 h", or "never". ValueError says what is allowed."""
    if text == "never":
        return "never"
    try:
        return parse_span(text if isinstance(text, str) else repr(text))
    except ValueError as error:
        raise ValueError(f'{error}, or "never"') from None


Limit = Annotated[timedelta | Literal["never"], BeforeValidator(parse_limit)]
Percent = Annotated[float, Field(gt=0, le=6400)]
Hours = Annotated[QuietHours, BeforeValidator(parse_quiet_hours)]


class CullingSettings(Section):
    """How idle servers are watched."""

    every: Span = Field(
        timedelta(seconds=30),
        ge=timedelta(seconds=2),
        le=timedelta(minutes=10),
        description="Time between two looks. A server of which nothing is known for four of them, two minutes at "
        "least, is not called idle.",
    )


class IdleSettings(ForSomebody):
    """When a server is idle, and what then happens. Of the tables that fit, the more special holds, key by key."""

    user: str | None = Field(None, min_length=1, max_length=255, description="User whose servers it is for.")
    group: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="Group (a course, a lab) whose members' servers it is for; of several groups' the longest "
        "`idle_limit` holds.",
    )
    flavor: Slug | None = Field(None, description="Flavor it is for; without it all are.")
    gpu: bool | None = Field(None, description="true: flavors with a GPU only, false: those without only.")
    idle_limit: Limit | None = Field(
        None, description='How long a server may show no sign of work, like "2 h", or "never"; at least 15 min.'
    )
    gpu_idle_limit: Limit | None = Field(
        None,
        description="How long a GPU may do nothing while its person edits text; CPU and network at work, cells and "
        'programs keep it; "never" or at least 15 min.',
    )
    busy_limit: Span | None = Field(
        None,
        description='How long a cell or a program in a terminal keeps a server though nothing moves, like "8 h" '
        "(the default).",
    )
    grace_percent: int | None = Field(
        None, ge=0, le=100, description="Of the time that was worked, in addition to a limit (default 10) …"
    )
    longest_grace: Span | None = Field(None, description='… and at most so much (default "2 h").')
    warn: list[Span] | None = Field(
        None,
        max_length=5,
        description='Times before a stop at which its person is told (default "15 min" and "5 min").',
    )
    extend: Span | None = Field(None, description='What one click on "Extend" gives (default "1 h"); "0 s" is nothing.')
    longest_extension: Span | None = Field(
        None, description='Of all clicks together, until work is seen again (default "4 h").'
    )
    move_to: Slug | None = Field(
        None,
        description="Flavor without a GPU that a server goes on with when its GPU is idle; without it, it is stopped.",
    )
    signals: list[Signal] | None = Field(
        None, min_length=1, description="What counts as activity; without it all of the list does."
    )
    cpu_percent: Percent | None = Field(
        None, description="CPU, in percent of a core, from which it is work (default 5)."
    )
    network_rate: Size | None = Field(
        None, description='Data a second, both ways, from which it is work (default "50 KiB").'
    )
    gpu_percent: Percent | None = Field(None, description="GPU utilization from which it is work (default 2).")
    gpu_memory_change: Size | None = Field(
        None, description='Change of GPU memory from which it is work (default "64 MiB"); held memory is none.'
    )
    quiet_hours: list[Hours] | None = Field(
        None,
        description="Hours of `billing.timezone` in which no server is stopped for being idle, like "
        '"Mon-Fri 08:00-18:00"; what would be is put off to their end.',
    )
    allow_short: bool = Field(default=False, description="Allow limits below 15 minutes: for tests and demonstrations.")

    @model_validator(mode="after")
    def _is_not_too_short(self) -> Self:
        for key in ("idle_limit", "gpu_idle_limit", "busy_limit"):
            value = getattr(self, key)
            if isinstance(value, timedelta) and value.total_seconds() < SHORTEST and not self.allow_short:
                raise ValueError(f"{key} is below 15 min: people lose work by that; allow_short = true permits it")
        return self

    def to_rule(self) -> IdleRule:
        """Return the domain's rule."""
        changes = {key: self._plain(key) for key in _PLAIN if key in self.model_fields_set}
        limits = {key: getattr(self, key) for key in _THRESHOLDS if key in self.model_fields_set and getattr(self, key)}
        return IdleRule(who=self.who, flavor=self.flavor, gpu=self.gpu, changes=changes, thresholds=limits)

    def _plain(self, key: str) -> Any:
        value = getattr(self, key)
        if isinstance(value, timedelta):
            return int(value.total_seconds())
        if key == "warn":
            return tuple(sorted({int(each.total_seconds()) for each in value}, reverse=True))
        if isinstance(value, list):
            return frozenset(value) if key == "signals" else tuple(value)
        return None if value == "never" else value


_THRESHOLDS = tuple(Thresholds.__dataclass_fields__)
_PLAIN = tuple(each for each in IdlePolicy.__dataclass_fields__ if each != "thresholds")
