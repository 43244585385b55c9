"""Forty users start, stop, cancel and lose servers at random: never two leases on a slot, none left at the end."""

import asyncio
import contextlib
import random
from collections import Counter

import pytest
from jupyterhub.spawner import SpawnException

from support.users import start

ROUNDS, USERS, AT_ONCE = 200, 40, 10


def check_no_slot_is_held_twice(site) -> None:
    held = Counter(slot for lease in site.leases.open_leases() for slot in lease.allocation.slots)
    assert all(count == 1 for count in held.values()), held
    alone = Counter(slot.device_uuid for slot in held if slot.slots == 1)
    shared = {slot.device_uuid for slot in held if slot.slots > 1}
    assert not shared & set(alone), "a device held alone has no shared slot"


async def act(site, user, chance: random.Random) -> None:
    """Do one thing that a person, or fate, may do to a server."""
    if user.spawner.active:
        if chance.random() < 0.2:
            site.docker.end(user.spawner.object_id, exit_code=137)
            assert await user.spawner.poll() is not None
        await user.stop()
        return
    work = asyncio.ensure_future(start(user, profile=chance.choice(["cpu", "one", "two", "shared", "nope"])))
    if chance.random() < 0.3:
        await asyncio.sleep(chance.random() * 0.05)
        work.cancel()
        await asyncio.wait([work])
        await user.stop()
        return
    with contextlib.suppress(SpawnException):
        await work


@pytest.mark.case(28)
@pytest.mark.parametrize("seed", [1, 2])
async def test_two_hundred_random_rounds(make_site, seed):
    site = make_site(gpus=8)
    chance = random.Random(seed)
    users = [site.users[f"user-{number}"] for number in range(USERS)]
    for _ in range(ROUNDS // AT_ONCE):
        await asyncio.gather(*(act(site, user, chance) for user in chance.sample(users, AT_ONCE)))
        check_no_slot_is_held_twice(site)
        running = {each["Name"] for each in site.docker.by_id.values()}
        assert len(running) == len(site.leases.open_leases())
    for user in users:
        if user.spawner.active:
            await user.stop()
    assert (site.leases.open_leases(), site.docker.by_id) == ((), {})
