"""What a site has decided of idle servers: limits, grace, warnings, extensions, hours that are left alone. Pure.

Of the rules that fit a server the more special one holds, key by key: for a user before for a group before for
everyone, and among these for a flavor by name before for a kind. Of several groups' rules the longest limit holds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta, tzinfo
from itertools import groupby
from typing import Any

from nbgpu.core.activity import Signal, Thresholds
from nbgpu.core.periods import to_instant, to_seconds
from nbgpu.core.quotas import Who

SHORTEST = 15 * 60  # seconds: an idle limit below it needs a site's express word
REPORTS_EVERY = 30  # seconds between two reports of a server
_WEEK = 7
_LIMITS = frozenset({"idle_limit", "gpu_idle_limit", "busy_limit"})
_FOREVER = 10 * 366 * 86400


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Hours of some days in which no server is stopped for being idle; they may go over midnight."""

    days: frozenset[int]  # on which they begin, 0 is Monday
    begin: time
    end: time

    def end_of(self, instant: int, zone: tzinfo) -> int | None:
        """Return when the quiet hours end that an instant lies in; None where it lies in none."""
        local = to_instant(instant).astimezone(zone)
        for back in (0, 1):  # they may have begun yesterday
            day = local.date() - timedelta(days=back)
            last = day if self.begin < self.end else day + timedelta(days=1)
            begin, end = (to_seconds(datetime.combine(*each, zone)) for each in ((day, self.begin), (last, self.end)))
            if day.weekday() in self.days and begin <= instant < end:
                return end
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePolicy:
    """What holds for one server; spans in seconds."""

    idle_limit: int | None = None  # without any sign of work; None is never
    gpu_idle_limit: int | None = None  # without work for its GPU, whatever the person does; None is never
    busy_limit: int = 8 * 3600  # of a cell or a foreground program in which nothing moves
    grace_percent: int = 10  # of the work done, in addition to a limit …
    longest_grace: int = 2 * 3600  # … and at most so much
    warn: tuple[int, ...] = (900, 300)  # before a stop, longest first
    extend: int = 3600  # what one click gives; 0 is nothing
    longest_extension: int = 4 * 3600  # of all clicks together, until work is seen again
    move_to: str | None = None  # flavor that a server goes on with when its GPU is idle; None: it is stopped
    signals: frozenset[Signal] = frozenset(Signal)  # what counts as activity
    thresholds: Thresholds = field(default_factory=Thresholds)
    quiet_hours: tuple[QuietHours, ...] = ()

    def leave_quiet_hours(self, instant: int, zone: tzinfo) -> int:
        """Return the first instant from this one on at which a server may be stopped."""
        left = instant
        for _ in range(_WEEK * (len(self.quiet_hours) + 1)):
            end = next((end for each in self.quiet_hours if (end := each.end_of(left, zone)) is not None), None)
            if end is None:
                return left
            left = end
        return instant + _FOREVER  # they have no end


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRule:
    """Some of a policy's keys, for some servers."""

    who: Who
    flavor: str | None = None  # slug
    gpu: bool | None = None  # flavors with a GPU, or without
    changes: Mapping[str, Any] = field(default_factory=dict)  # of IdlePolicy
    thresholds: Mapping[str, Any] = field(default_factory=dict)  # of its Thresholds

    def fits(self, username: str, groups: Iterable[str], flavor: str, *, has_gpu: bool) -> bool:
        """Whether it is for a server."""
        return self.who.covers(username, groups) and self.flavor in (None, flavor) and self.gpu in (None, has_gpu)


def find_policy(
    rules: Iterable[IdleRule], username: str, groups: Iterable[str], flavor: str, *, has_gpu: bool
) -> IdlePolicy | None:
    """Return what holds for a server; None where nothing ever stops it for being idle."""
    groups = tuple(groups)
    fitting = [rule for rule in rules if rule.fits(username, groups, flavor, has_gpu=has_gpu)]
    policy = IdlePolicy()
    for _, equals in groupby(sorted(fitting, key=_strength), key=_strength):
        of_equals = list(equals)
        for rule in of_equals:
            policy = replace(policy, **rule.changes, thresholds=replace(policy.thresholds, **rule.thresholds))
        policy = replace(policy, **_longest(of_equals))
    if not has_gpu:
        policy = replace(policy, gpu_idle_limit=None)
    return policy if policy.idle_limit is not None or policy.gpu_idle_limit is not None else None


def _strength(rule: IdleRule) -> tuple[int, int, int]:
    scopes = ("everyone", "group", "user")
    return scopes.index(rule.who.scope), int(rule.flavor is not None), int(rule.gpu is not None)


def _longest(rules: Iterable[IdleRule]) -> dict[str, Any]:
    """Return each limit that any of some rules of the same strength has: the longest; None is never."""
    found: dict[str, Any] = {}
    for rule in rules:
        for key in _LIMITS & rule.changes.keys():
            limit, other = rule.changes[key], found.get(key, 0)
            found[key] = None if limit is None or other is None else max(limit, other)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSite:
    """What a site has decided of idle servers."""

    rules: tuple[IdleRule, ...] = ()
    zone: tzinfo = UTC  # of quiet hours
    every: int = 30  # seconds between two looks

    @property
    def stale(self) -> int:
        """Seconds after which a signal that was not told is unknown: four looks, or four reports of a server."""
        return max(4 * self.every, 4 * REPORTS_EVERY)

    @property
    def fresh(self) -> int:
        """Seconds for which a verdict holds: a watch that ended long ago must stop nobody."""
        return 2 * self.every + 60

    def find_policy(self, username: str, groups: Iterable[str], flavor: str, *, has_gpu: bool) -> IdlePolicy | None:
        """Return what holds for a server; None where nothing ever stops it for being idle."""
        return find_policy(self.rules, username, groups, flavor, has_gpu=has_gpu)
