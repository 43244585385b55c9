"""Who asks the API: identified by the hub from their token, with what its scopes allow."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from nbgpu.core.leases import ServerRef
from nbgpu.core.scopes import BILL, CULL, OPERATE, READ_ALL

ACCESS_SCOPES = frozenset({"access:services", "access:services!service=nbgpu"})
METRICS = "read:metrics"  # JupyterHub's own, of its own metrics
_OPERATES = frozenset({OPERATE, "admin:users"})  # a whole administrator needs no scope of ours
_BILLS = frozenset({BILL, "admin:users"})
_READS_ALL = _OPERATES | _BILLS | {READ_ALL}
_SERVER = "access:servers!server="


class HubAuth(Protocol):
    """JupyterHub's `HubAuth`, as far as it is used."""

    async def get_user(self, handler: Any, *, sync: bool) -> dict[str, Any] | None:
        """Return the hub's model of whoever made a request."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever asks, and whether they may read of others."""

    name: str
    groups: tuple[str, ...]
    reads_all: bool
    is_user: bool  # a person; else a service, which has no usage of its own
    culls: bool = False
    operates: bool = False
    bills: bool = False
    reads_metrics: bool = False
    server: ServerRef | None = None  # it is a server's own token, which asks for its own session only


def to_caller(model: dict[str, Any]) -> Caller | None:
    """Return the caller of the hub's model; None for one whose token may not use this service."""
    scopes = frozenset(model.get("scopes") or ())
    if not scopes & ACCESS_SCOPES:
        return None
    server = find_server(str(model["name"]), scopes)
    return Caller(
        name=str(model["name"]),
        groups=tuple(sorted(model.get("groups") or ())),
        reads_all=server is None and bool(scopes & _READS_ALL),
        is_user=server is None and model.get("kind") == "user",
        culls=CULL in scopes,
        operates=server is None and bool(scopes & _OPERATES),
        bills=server is None and bool(scopes & _BILLS),
        reads_metrics=server is None and bool(scopes & {METRICS, "admin:users"}),
        server=server,
    )


def find_server(name: str, scopes: Collection[str]) -> ServerRef | None:
    """Return whose own token it is: the server of that user which alone it may use; None for any other token."""
    if {"access:servers", f"access:servers!user={name}"} & set(scopes):
        return None  # a person's own, for all their servers
    mine = [each.removeprefix(f"{_SERVER}{name}/") for each in scopes if each.startswith(f"{_SERVER}{name}/")]
    return ServerRef(name, mine[0]) if len(mine) == 1 else None
