"""Who asks the API: identified by the hub from their token, with what its scopes allow."""

from dataclasses import dataclass
from typing import Any, Protocol

ACCESS_SCOPES = frozenset({"access:services", "access:services!service=nbgpu"})
READ_ALL = "custom:nbgpu:usage:read"
CULL = "custom:nbgpu:cull"  # of the culler's own token: it may ask which servers are due
_READS_ALL = frozenset({READ_ALL, "admin:users"})  # a whole administrator needs no scope of ours


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


def to_caller(model: dict[str, Any]) -> Caller | None:
    """Return the caller of the hub's model; None for one whose token may not use this service."""
    scopes = frozenset(model.get("scopes") or ())
    if not scopes & ACCESS_SCOPES:
        return None
    return Caller(
        name=str(model["name"]),
        groups=tuple(sorted(model.get("groups") or ())),
        reads_all=bool(scopes & _READS_ALL),
        is_user=model.get("kind") == "user",
        culls=CULL in scopes,
    )
