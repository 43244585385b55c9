"""What is wrong between the lease rows, the containers and the hub, and what mends it. Pure.

The three can disagree after a crash at any step of a start or a stop. Every fact is of one session; `judge` looks at
all that is known of it and names one repair. "Can't ask" never comes here: without all three answers nothing is judged.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from nbgpu.core.leases import Lease, LeaseState, ServerRef


class Repair(StrEnum):
    """What to do with a session."""

    NOTHING = "nothing"
    UNDO = "undo"  # end the container if there is one, then release the lease
    RELEASE = "release"  # the container is gone: release the lease
    ADOPT = "adopt"  # a running notebook that the hub forgot: hand it back to the hub
    REMOVE = "remove"  # a container that no lease stands for: end it


@dataclass(frozen=True, slots=True)
class ContainerFact:
    """A container of this deployment, by its labels."""

    id: str
    session_id: str
    running: bool
    device_uuids: tuple[str, ...] = ()  # what it was given at its start
    finished_at: datetime | None = None  # of one that ended: the engine's own time; None where it does not know


@dataclass(frozen=True, slots=True)
class HubServer:
    """A server as the hub sees it; only those that run, or are being started or stopped."""

    server: ServerRef
    session_id: str | None  # None while it starts
    pending: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """A session in disagreement, the repair, and the reason in a sentence for the audit."""

    session_id: str
    repair: Repair
    reason: str


def judge(lease: Lease | None, container: ContainerFact | None, hub: HubServer | None) -> tuple[Repair, str]:
    """Return the repair of one session and why. `hub` is what the hub says of the lease's server."""
    if lease is None:
        if container is None or (hub is not None and hub.session_id == container.session_id):
            return Repair.NOTHING, ""
        return Repair.REMOVE, "a container without a lease"
    if hub is not None and (hub.pending or hub.session_id == lease.session_id):
        return Repair.NOTHING, ""  # the hub is at work on it, or polls it
    if lease.state is LeaseState.PENDING:
        return Repair.UNDO, "a start that was broken off"
    if lease.state is LeaseState.ENDING:
        return Repair.UNDO, "a stop that was broken off"
    if container is None or not container.running:
        return Repair.RELEASE if container is None else Repair.UNDO, "its container ended while nobody looked"
    if hub is not None:
        return Repair.UNDO, "its server has another session"
    return Repair.ADOPT, "a running server that the hub had lost"
