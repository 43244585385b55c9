"""Quotas: caps on amounts, for each person. Pure.

A limit that is set for a person by name holds; else the largest that any of their groups gives; else the one for
everyone. That goes for each kind of limit by itself, and for each flavor and window by itself: a limit of GPU-hours a
week and one a month both hold. A MIG instance or a shared slot counts as one GPU.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum

from nbgpu.core.errors import QuotaExceeded
from nbgpu.core.periods import HOUR, Period, to_instant
from nbgpu.core.texts import Text
from nbgpu.core.windows import Window, WindowKind


class Scope(StrEnum):
    """Whom a policy is for; the later the stronger."""

    EVERYONE = "everyone"
    GROUP = "group"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Who:
    """The people a policy is for."""

    scope: Scope
    name: str = ""

    def covers(self, username: str, groups: Iterable[str]) -> bool:
        """Whether a person with these groups is one of them."""
        if self.scope is Scope.EVERYONE:
            return True
        return self.name == username if self.scope is Scope.USER else self.name in groups


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaPolicy:
    """What each person of `who` may have; None is no limit."""

    who: Who
    flavor: str | None = None  # counts, and holds for, this flavor only
    gpu_seconds: int | None = None  # over `window`
    window: Window | None = None
    servers: int | None = None  # at one time
    gpus: int | None = None  # at one time
    longest: int | None = None  # seconds of one session


class LimitKind(StrEnum):
    """What a limit counts."""

    SERVERS = "servers"
    GPUS = "gpus"
    GPU_SECONDS = "gpu_seconds"
    LONGEST = "longest"


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit that holds for a person."""

    kind: LimitKind
    flavor: str | None
    window: Window | None
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A limit as it stands for a person; GPU-seconds, or a count."""

    limit: Limit
    used: int
    held: int = 0
    resets_at: int | None = None  # when a calendar window begins anew, in seconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """A session as limits see it; instants in seconds since 1970."""

    session_id: str
    flavor: str
    devices: int
    period: Period  # up to now where it runs; empty where it only just begins
    running: bool
    authorized: int | None = None  # seconds that it may run; None is no limit

    def used(self, period: Period) -> int:
        """Return the GPU-seconds in a period."""
        return self.period.clip(period).seconds * self.devices

    @property
    def held(self) -> int:
        """Return the GPU-seconds that it may still use."""
        left = (self.authorized or 0) - self.period.seconds
        return max(0, left) * self.devices if self.running else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What somebody wants to start, or to go on with."""

    username: str
    groups: tuple[str, ...]  # sorted
    flavor: str
    title: str
    devices: int
    price_per_hour: int  # micro-units
    time_limit: int | None = None  # seconds, from its start
    elapsed: int = 0  # seconds since then


def limits_of(
    policies: Iterable[QuotaPolicy], username: str, groups: Iterable[str], flavor: str | None
) -> tuple[Limit, ...]:
    """Return the limits that hold for a person who takes a flavor; those of all flavors where it is None."""
    groups = tuple(groups)
    strongest: dict[tuple[LimitKind, str | None, Window | None], tuple[Scope, int]] = {}
    for policy in policies:
        if not policy.who.covers(username, groups) or (flavor is not None and policy.flavor not in (None, flavor)):
            continue
        for kind, value in _values(policy):
            key = (kind, policy.flavor, policy.window if kind is LimitKind.GPU_SECONDS else None)
            strongest[key] = max(
                strongest.get(key, (policy.who.scope, value)), (policy.who.scope, value), key=_strength
            )
    return tuple(Limit(*key, value) for key, (_, value) in strongest.items())


def check_counts(limits: Iterable[Limit], ask: Ask, tenures: Iterable[Tenure]) -> None:
    """Check what may be had at one time. Raises QuotaExceeded."""
    running = [each for each in tenures if each.running]
    for limit in limits:
        counted = [each for each in running if limit.flavor in (None, each.flavor)]
        if limit.kind is LimitKind.SERVERS and len(counted) >= limit.value:
            raise QuotaExceeded(_too_many_servers(limit, ask, len(counted)))
        held = sum(each.devices for each in counted)
        if limit.kind is LimitKind.GPUS and ask.devices and held + ask.devices > limit.value:
            text = Text(
                "“%(flavor)s” takes %(wanted)s GPUs; you hold %(held)s of the %(limit)s that you may have at one time. "
                "Stop a server, or take a smaller flavor.",
                flavor=ask.title,
                wanted=ask.devices,
                held=held,
                limit=limit.value,
            )
            raise QuotaExceeded(text)


def seconds_left(limit: Limit, ask: Ask, tenures: Iterable[Tenure], now: int, zone: tzinfo) -> int | None:
    """Return how long a session could run from now on under a limit of GPU-hours; None where it does not bind.

    What other sessions may still use counts as used; the asking session's own past is among `tenures`.
    """
    if limit.kind is not LimitKind.GPU_SECONDS or limit.window is None or not ask.devices:
        return None
    used, held = count_used(limit, tenures, now, zone)
    return max(0, limit.value - used - held) // ask.devices


def count_used(limit: Limit, tenures: Iterable[Tenure], now: int, zone: tzinfo) -> tuple[int, int]:
    """Return the GPU-seconds that count against a limit: used in its window, and held by what runs."""
    counted = [each for each in tenures if limit.flavor in (None, each.flavor)]
    period = limit.window.period(now, zone) if limit.window is not None else Period(0, now)
    return sum(each.used(period) for each in counted), sum(each.held for each in counted)


def describe_quota(limit: Limit, tenures: tuple[Tenure, ...], now: int, zone: tzinfo) -> Quota:
    """Return a limit as it stands."""
    running = [each for each in tenures if each.running and limit.flavor in (None, each.flavor)]
    if limit.kind is LimitKind.GPU_SECONDS:
        used, held = count_used(limit, tenures, now, zone)
        window = limit.window
        rolls = window is None or window.kind is WindowKind.ROLLING
        return Quota(
            limit=limit,
            used=used,
            held=held,
            resets_at=None if rolls or window is None else window.period(now, zone).end,
        )
    if limit.kind is LimitKind.LONGEST:
        return Quota(limit=limit, used=max((each.period.seconds for each in running), default=0))
    count = len(running) if limit.kind is LimitKind.SERVERS else sum(each.devices for each in running)
    return Quota(limit=limit, used=count)


def explain_used_up(limit: Limit, tenures: tuple[Tenure, ...], least: int, now: int, zone: tzinfo) -> Text:
    """Return the sentence that refuses for GPU-hours: what is used, and when `least` seconds can be had again."""
    used, held = count_used(limit, tenures, now, zone)
    again = next_chance(limit, tenures, least, now, zone)
    when = to_instant(again).astimezone(zone).strftime("%Y-%m-%d %H:%M %Z") if again is not None else ""
    return Text(
        "Your GPU-hours are used up: %(used)s used and %(held)s held by running servers, of %(limit)s %(window)s. "
        "%(again)s",
        used=render_hours(used),
        held=render_hours(held),
        limit=render_hours(limit.value),
        window=describe_window(limit.window),
        again=Text("You can start again at %(when)s; without a GPU at any time.", when=when)
        if when
        else Text("Ask an administrator for more; without a GPU you can start at any time."),
    )


def next_chance(limit: Limit, tenures: tuple[Tenure, ...], least: int, now: int, zone: tzinfo) -> int | None:
    """Return the first instant at which `least` GPU-seconds are free if nobody starts anything; None where never."""
    window = limit.window
    if window is None or least > limit.value or window.kind is WindowKind.TERM:
        return None
    if window.kind is not WindowKind.ROLLING:
        return window.period(now, zone).end

    def free(at: int) -> int:
        used, held = count_used(limit, tenures, at, zone)
        return limit.value - used - held

    early, late = now, now + window.length
    if free(late) < least:
        return None
    while late - early > 1:  # what is used only falls while nobody starts anything
        middle = (early + late) // 2
        early, late = (early, middle) if free(middle) >= least else (middle, late)
    return late


def describe_window(window: Window | None) -> Text:
    """Return a window as part of a sentence."""
    if window is None:
        return Text("in all")
    if window.kind is WindowKind.ROLLING:
        hours = f"{window.length / HOUR:g}"
        return Text("in any %(hours)s hours", hours=hours)
    return {
        WindowKind.DAY: Text("a day"),
        WindowKind.WEEK: Text("a week"),
        WindowKind.MONTH: Text("a month"),
        WindowKind.TERM: Text("this term"),
    }[window.kind]


def render_hours(seconds: int) -> str:
    """Return seconds as hours with two decimals."""
    return f"{seconds / HOUR:.2f}"


def _values(policy: QuotaPolicy) -> list[tuple[LimitKind, int]]:
    values = [(kind, getattr(policy, kind.value)) for kind in LimitKind]
    return [(kind, value) for kind, value in values if value is not None]


def _strength(found: tuple[Scope, int]) -> tuple[int, int]:
    scope, value = found
    return list(Scope).index(scope), value


def _too_many_servers(limit: Limit, ask: Ask, running: int) -> Text:
    if limit.flavor is None:
        return Text(
            "You have %(running)s servers running, and may have %(limit)s at one time. Stop one to start another.",
            running=running,
            limit=limit.value,
        )
    return Text(
        "You have %(running)s servers of “%(flavor)s” running, and may have %(limit)s at one time. Stop one of them, "
        "or take another flavor.",
        running=running,
        flavor=ask.title,
        limit=limit.value,
    )
