"""Idleness as people read it on the hub's pages: the rule on a flavor's card, and what holds for a server now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from nbgpu.core.culling import State
from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.idle_policy import IdleSite
from nbgpu.core.idle_view import IdleView
from nbgpu.core.leases import Lease
from nbgpu.core.periods import to_instant
from nbgpu.core.stops import IDLE_CAUSES


class IdleViews(Protocol):
    """What knows of sessions' idleness. Each call may block and raises StoreError."""

    def running(self, username: str | None) -> Sequence[IdleView]:
        """Return a user's sessions that run."""

    def find(self, session_id: str) -> IdleView | None:
        """Return a session, running or ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRule:
    """What holds for a flavor's servers; None is never."""

    limit: timedelta | None
    gpu_limit: timedelta | None
    moves: bool  # with an idle GPU it goes on without one


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleLine:
    """What holds for a running server now."""

    state: State
    since: datetime | None  # when it was last seen at work
    stops_at: datetime | None  # if nothing changes
    moves: bool  # it then goes on without a GPU
    is_moved: bool = False  # and that is decided


class Idling:
    """A site's rules and what is found by them."""

    def __init__(self, site: IdleSite, views: IdleViews) -> None:
        self.zone = site.zone
        self._site = site
        self._views = views

    def rule(self, username: str, groups: Iterable[str], flavor: Flavor) -> IdleRule | None:
        """Return what holds for a person's server of a flavor; None where none is ever stopped for being idle."""
        has_gpu = flavor.kind is not FlavorKind.CPU
        policy = self._site.find_policy(username, groups, flavor.slug, has_gpu=has_gpu)
        if policy is None or (policy.idle_limit is None and not has_gpu):
            return None
        return IdleRule(
            limit=_span(policy.idle_limit),
            gpu_limit=_span(policy.gpu_idle_limit) if has_gpu else None,
            moves=policy.move_to is not None,
        )

    def views(self, username: str, leases: Iterable[Lease]) -> dict[str, IdleView]:
        """Return a user's sessions of these, by id: those that run, and those that were stopped for being idle."""
        found = {view.session_id: view for view in self._views.running(username)}
        for lease in leases:
            if lease.released_at is not None and lease.stop_cause in IDLE_CAUSES:
                view = self._views.find(lease.session_id)
                if view is not None:
                    found[view.session_id] = view
        return found


def build_idle_line(view: IdleView) -> IdleLine | None:
    """Return what holds for a running session; None where no rule does, or it is not judged yet."""
    if view.policy is None or view.verdict is None or view.ended_at is not None:
        return None
    forecast = view.verdict.forecast
    return IdleLine(
        state=view.verdict.state,
        since=to_instant(forecast.since) if forecast is not None else None,
        stops_at=to_instant(forecast.at) if forecast is not None else None,
        moves=forecast is not None and forecast.move_to is not None,
        is_moved=view.moves_to is not None,
    )


def _span(seconds: int | None) -> timedelta | None:
    return timedelta(seconds=seconds) if seconds is not None else None
