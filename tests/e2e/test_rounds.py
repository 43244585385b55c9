"""Many people start and stop at random on the real engine: no slot is ever held twice, nothing is left."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.docker
FLAVORS = ("cpu", "mig-1g", "mig-2g", "t4-shared", "t4-shared", "a100", "a100x2")
USERS = ("r-ann", "r-bob", "r-cy", "r-di")
ROUNDS = 20
AT_ONCE = 2


def take_a_turn(hub, user, flavor):
    """Stop the user's server if it runs, else start one; return what came of it."""
    if hub.server(user) is not None:
        hub.stop_server(user)
        return "stopped"
    answer = hub.start_server(user, profile=flavor)
    assert answer.status_code in (201, 202, 503), answer.text
    if answer.status_code == 503:
        assert "can start now" in answer.json()["message"]
        return "refused"
    hub.wait_ready(user)
    return "started"


def check_consistency(hub):
    leases = hub.leases()
    held = Counter((slot.device_uuid, slot.slot) for lease in leases for slot in lease.allocation.slots)
    assert [slot for slot, times in held.items() if times > 1] == []
    cuts = {}
    for lease in leases:
        for slot in lease.allocation.slots:
            assert cuts.setdefault(slot.device_uuid, slot.slots) == slot.slots
    containers = {each.labels["org.nbgpu.session"]: each for each in hub.containers()}
    assert set(containers) == {lease.session_id for lease in leases}
    for lease in leases:
        environment = containers[lease.session_id].attrs["Config"]["Env"]
        assert f"NVIDIA_VISIBLE_DEVICES={','.join(lease.allocation.device_uuids) or 'void'}" in environment


@pytest.mark.case(28)
def test_random_rounds(hub):
    chance = random.Random(20261130)
    for user in USERS:
        hub.add_user(user)
    outcomes = Counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(ROUNDS // AT_ONCE):
            turns = [(user, chance.choice(FLAVORS)) for user in chance.sample(USERS, AT_ONCE)]
            outcomes.update(pool.map(lambda turn: take_a_turn(hub, *turn), turns))
            check_consistency(hub)
    assert outcomes["started"] >= 6
    assert outcomes["stopped"] >= 4
    printed = hub.listed_leases()
    assert [(each["session_id"], each["username"]) for each in printed] == [
        (lease.session_id, lease.server.username) for lease in hub.leases()
    ]
    hub.stop_all()
    assert hub.listed_leases() == []
    assert hub.containers() == []
