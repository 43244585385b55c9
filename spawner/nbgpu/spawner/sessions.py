"""A server's newest session as its owner reads it: what it holds, since when, and why it ended. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from nbgpu.core.devices import Device
from nbgpu.core.flavors import Flavor
from nbgpu.core.leases import Lease
from nbgpu.core.texts import Text
from nbgpu.spawner.cards import describe_price


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why a session ended and what its owner can do now."""

    why: Text
    advice: Text | None = None
    words: str = ""  # the server's own last log lines


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session as pages show it."""

    flavor: str  # as the card says; the slug where the flavor is gone from the menu
    flavor_slug: str
    image: str
    devices: tuple[str, ...]  # names
    price: Text
    time_limit: timedelta | None
    since: datetime
    ended_at: datetime | None
    ending: Ending | None


def build_session_view(
    lease: Lease, flavor: Flavor | None, devices: Mapping[str, Device], currency: str
) -> SessionView:
    """Return the view of a lease; `flavor` is None when the menu has it no more."""
    names = [devices[uuid].name if uuid in devices else None for uuid in lease.allocation.device_uuids]
    return SessionView(
        flavor=flavor.display_name if flavor is not None else lease.flavor,
        flavor_slug=lease.flavor,
        image=lease.image,
        devices=tuple(name or "GPU" for name in names),
        price=describe_price(lease.price_per_hour, currency),
        time_limit=flavor.time_limit if flavor is not None else None,
        since=lease.active_at or lease.created_at,
        ended_at=lease.released_at,
        ending=explain_end(lease.release_reason or "") if lease.released_at is not None else None,
    )


_RETRY = Text("Start it again. If this comes back, show an administrator what is written here.")
_ENDINGS: tuple[tuple[str, Text, Text | None], ...] = (
    (r"stopped$", Text("It was stopped on request: by you, by an administrator or by a rule of this hub."), None),
    (r"cancelled$", Text("The start was cancelled before the server was ready."), None),
    (r"reconciled: ", Text("It had ended or was lost, which the hub found when it compared what runs."), _RETRY),
    (r"left over by an earlier start", Text("It was left over from a start that was broken off."), None),
    (
        r"(failed start: )?The server ran out of memory",
        Text("It ran out of memory (RAM) and was ended."),
        Text("Take a flavor with more RAM, or load less data at a time."),
    ),
    (
        r"(failed start: )?The container is gone",
        Text("Its container is gone: somebody removed it, or the machine was restarted."),
        Text("Files in your home folder are kept. Start it again."),
    ),
    (
        r"(failed start: )?The server was killed",
        Text("It was killed: by somebody, or because memory (RAM) ran out."),
        _RETRY,
    ),
    (r"(failed start: )?The server ended with signal", Text("It was ended by a signal from outside."), _RETRY),
    (
        r"failed start: The server did not answer within",
        Text("It did not answer in time and was ended."),
        _RETRY,
    ),
)
_EXIT = re.compile(r"(?:failed start: )?The (?:container|server) ended with exit code (-?\d+)")
_LAST_WORDS = re.compile(r"\s*Last log lines: (.*)", re.DOTALL)


def explain_end(reason: str) -> Ending:
    """Return why a session ended, from the reason that was kept: those we write ourselves in the reader's language."""
    words = _LAST_WORDS.search(reason)
    said = words[1] if words else ""
    for pattern, why, advice in _ENDINGS:
        if re.match(pattern, reason):
            return Ending(why=why, advice=advice, words=said)
    code = _EXIT.match(reason)
    if code is not None:
        return Ending(why=Text("Its program ended with exit code %(code)s.", code=code[1]), advice=_RETRY, words=said)
    return _explain_other(_LAST_WORDS.sub("", reason), said)


def _explain_other(reason: str, words: str) -> Ending:
    """A reason that some other part of the program, or a site's own, gave in a sentence of its own."""
    if not reason:
        return Ending(why=Text("The reason is not known."), advice=_RETRY, words=words)
    sentence = reason.removeprefix("failed start: ")
    if sentence != reason:
        return Ending(why=Text("Its start failed: %(reason)s", reason=sentence), advice=_RETRY, words=words)
    return Ending(why=Text(reason), words=words)
