"""What is wrong between leases, containers and hub, case by case."""

from datetime import UTC, datetime

import pytest

from nbgpu.core.leases import Lease, LeaseState, ServerRef
from nbgpu.core.placement import Allocation
from nbgpu.core.reconcile import ContainerFact, HubServer, Repair, judge

ANN = ServerRef("ann")
RUNS, ENDED = ContainerFact("c1", "s1", running=True), ContainerFact("c1", "s1", running=False)
KNOWN = HubServer(ANN, "s1", pending=False)
STARTING = HubServer(ANN, None, pending=True)
ANOTHER = HubServer(ANN, "s2", pending=False)


def lease(state: LeaseState) -> Lease:
    return Lease(
        session_id="s1",
        server=ANN,
        flavor="one",
        image="base",
        image_id="sha256:1",
        price_per_hour=0,
        state=state,
        allocation=Allocation(),
        created_at=datetime(2026, 11, 30, tzinfo=UTC),
    )


PENDING, ACTIVE, ENDING = (lease(state) for state in (LeaseState.PENDING, LeaseState.ACTIVE, LeaseState.ENDING))


@pytest.mark.parametrize(
    ("why", "held", "container", "hub", "repair"),
    [
        ("all agree", ACTIVE, RUNS, KNOWN, Repair.NOTHING),
        ("nothing anywhere", None, None, None, Repair.NOTHING),
        ("a start goes on", PENDING, None, STARTING, Repair.NOTHING),
        ("a start goes on, its container runs", ACTIVE, RUNS, STARTING, Repair.NOTHING),
        ("a stop goes on", ENDING, RUNS, STARTING, Repair.NOTHING),
        ("the hub polls it, and will see the end", ACTIVE, ENDED, KNOWN, Repair.NOTHING),
        ("hub killed before the container was created", PENDING, None, None, Repair.UNDO),
        ("hub killed after the container was created", PENDING, ENDED, None, Repair.UNDO),
        ("hub killed after the container started", PENDING, RUNS, None, Repair.UNDO),
        ("hub killed before it wrote down that the server runs", ACTIVE, RUNS, None, Repair.ADOPT),
        ("hub lost its database", ACTIVE, RUNS, None, Repair.ADOPT),
        ("the container ended while the hub was down", ACTIVE, ENDED, None, Repair.UNDO),
        ("the container was removed while the hub was down", ACTIVE, None, None, Repair.RELEASE),
        ("hub killed in the middle of a stop", ENDING, RUNS, None, Repair.UNDO),
        ("hub killed at the end of a stop", ENDING, None, None, Repair.UNDO),
        ("a stop failed and the hub forgot the server", ENDING, RUNS, None, Repair.UNDO),
        ("the server lives on in another session", ACTIVE, RUNS, ANOTHER, Repair.UNDO),
        ("a container without a lease", None, RUNS, None, Repair.REMOVE),
        ("an ended container without a lease", None, ENDED, None, Repair.REMOVE),
        ("a notebook in use is not ended for want of a row", None, RUNS, KNOWN, Repair.NOTHING),
    ],
)
def test_a_session_is_judged(why, held, container, hub, repair):
    verdict, reason = judge(held, container, hub)
    assert verdict is repair, why
    assert bool(reason) == (repair is not Repair.NOTHING)
