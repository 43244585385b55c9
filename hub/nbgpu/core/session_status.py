"""A session as plain values for JSON: what it is, costs and may run, and what is found of its idleness. Pure."""

from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import Any

from nbgpu.core.broadcasts import Broadcast
from nbgpu.core.culling import Finding, State
from nbgpu.core.flavors import Flavor
from nbgpu.core.idle_policy import IdlePolicy
from nbgpu.core.idle_view import IdleView
from nbgpu.core.idle_words import describe_end, describe_finding, describe_forecast
from nbgpu.core.periods import to_instant
from nbgpu.core.stops import IDLE_CAUSES, Move, describe_stop, explain_stop
from nbgpu.core.texts import Text

_VERDICTS = {State.ACTIVE: "active", State.QUIET: "idle", State.UNKNOWN: "unknown", State.IGNORED: "unknown"}


def plain_session(
    view: IdleView,
    *,
    now: datetime,
    zone: tzinfo,
    flavor: Flavor | None,
    currency: str,
    cost: int | None,
    price: int | None = None,
    broadcasts: Iterable[Broadcast] = (),
) -> dict[str, Any]:
    """Return a session for JSON; money in micro-units, instants as ISO 8601 texts. `flavor` is None once it is gone.

    `price` is that of an hour now; None: as it was at the start.
    """
    return {
        "session_id": view.session_id,
        "user": view.server.username,
        "server": view.server.servername,
        "flavor": {
            "slug": view.flavor,
            "display_name": flavor.display_name if flavor is not None else view.flavor,
            "kind": flavor.kind if flavor is not None else None,
        },
        "image": view.image,
        "devices": list(view.devices),
        "started_at": view.started_at.isoformat(),
        "as_of": now.isoformat(timespec="seconds"),
        "currency": currency,
        "price_per_hour_micro": view.price_per_hour if price is None else price,
        "cost_micro": cost,
        "until": view.until.isoformat() if view.until is not None else None,
        "time_limit_s": view.time_limit,
        "stop": _plain_stop(view, zone),
        "idle": _plain_idle(view, view.policy, zone) if view.policy is not None else None,
        "ended_at": view.ended_at.isoformat() if view.ended_at is not None else None,
        "end": _plain_text(describe_last(view, zone)),
        "messages": [] if view.ended_at is not None else [plain_broadcast(each) for each in broadcasts],
    }


def plain_broadcast(broadcast: Broadcast) -> dict[str, Any]:
    """Return a message to everybody for JSON."""
    return {
        "number": broadcast.number,
        "text": broadcast.text,
        "sent_at": broadcast.sent_at.isoformat(timespec="seconds"),
        "until": broadcast.until.isoformat(timespec="seconds"),
    }


def describe_last(view: IdleView, zone: tzinfo) -> Text | None:
    """Return why a session was ended, where a limit ended it; None while it runs and where something else did."""
    if view.ended_at is None or view.stop is None or to_instant(view.stop.at) > view.ended_at:
        return None  # it runs, or somebody stopped it before it was due
    forecast = view.verdict.forecast if view.verdict is not None else None
    if view.stop.cause not in IDLE_CAUSES or forecast is None:
        return explain_stop(view.stop.cause)
    return describe_end(view.stop.cause, forecast.since, forecast.limit, zone)


def _plain_stop(view: IdleView, zone: tzinfo) -> dict[str, Any] | None:
    if view.stop is None:
        return None
    move = Move(view.moves_to, view.image) if view.moves_to is not None else None
    text = str(describe_stop(view.stop, zone, move))
    return {"at": _plain(view.stop.at), "cause": view.stop.cause, "text": text}


def _plain_idle(view: IdleView, policy: IdlePolicy, zone: tzinfo) -> dict[str, Any]:
    verdict = view.verdict
    forecast = verdict.forecast if verdict is not None else None
    is_idle = verdict is not None and verdict.state is State.QUIET
    return {
        "verdict": _VERDICTS[verdict.state] if verdict is not None else "unknown",
        "since": _plain(forecast.since) if forecast is not None and is_idle else None,
        "limit_s": forecast.limit if forecast is not None else policy.idle_limit,
        "would_stop_at": _plain(forecast.at) if forecast is not None else None,
        "cause": forecast.cause if forecast is not None else None,
        "move_to": forecast.move_to if forecast is not None else None,
        "text": _plain_text(describe_forecast(verdict, zone) if verdict is not None else None),
        "reasons": [_plain_finding(each, zone) for each in verdict.findings] if verdict is not None else [],
        "extended_until": _plain(view.extension.until or None),
        "extend_s": view.next_extension,
        "extendable_s": view.extendable,
    }


def _plain_finding(finding: Finding, zone: tzinfo) -> dict[str, Any]:
    return {
        "signal": finding.signal,
        "state": finding.state,
        "at": _plain(finding.since),
        "value": finding.value,
        "threshold": finding.threshold,
        "text": str(describe_finding(finding, zone)),
    }


def _plain(seconds: int | None) -> str | None:
    return to_instant(seconds).isoformat() if seconds is not None else None


def _plain_text(text: Text | None) -> str | None:
    return str(text) if text is not None else None
