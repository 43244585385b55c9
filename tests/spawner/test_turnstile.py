"""Starts in turn: bounded, first come first served, places told, nobody forgotten."""

import asyncio

import pytest

from nbgpu.spawner.turnstile import Turnstile
from support.site import until
from support.users import start


class Person:
    """Somebody who enters, stays until told, and writes down their places."""

    def __init__(self, turnstile: Turnstile) -> None:
        self.places: list[int] = []
        self.inside, self.leave = asyncio.Event(), asyncio.Event()
        self.task = asyncio.ensure_future(self._pass(turnstile))

    async def _pass(self, turnstile: Turnstile) -> None:
        async with turnstile.turn(self.places.append):
            self.inside.set()
            await self.leave.wait()


@pytest.fixture
async def people():
    turnstile = Turnstile(2)
    people = [Person(turnstile) for _ in range(5)]
    await asyncio.sleep(0)
    yield people
    for person in people:
        person.task.cancel()
    await asyncio.wait([person.task for person in people])


def inside(people: list[Person]) -> list[int]:
    return [number for number, person in enumerate(people) if person.inside.is_set() and not person.task.done()]


async def test_as_many_as_fit_are_in_and_the_rest_have_places(people):
    assert inside(people) == [0, 1]
    assert [person.places for person in people] == [[], [], [1], [2], [3]]


async def test_who_leaves_lets_the_first_in_and_the_others_move_up(people):
    people[1].leave.set()
    await until(lambda: inside(people) == [0, 2])
    assert people[3].places == [2, 1]
    assert people[4].places == [3, 2]


async def test_who_gives_up_waiting_leaves_no_gap(people):
    people[2].task.cancel()
    await asyncio.wait([people[2].task])
    assert people[3].places == [2, 1]
    people[0].leave.set()
    await until(lambda: inside(people) == [1, 3])


async def test_a_failure_inside_gives_the_place_back(people):
    people[0].task.cancel()
    people[1].task.cancel()
    await until(lambda: inside(people) == [2, 3])


async def test_one_who_is_called_and_gives_up_at_once_passes_the_place_on(people):
    people[0].leave.set()
    await people[0].task  # number 2 is called, but has not run yet
    people[2].task.cancel()
    await until(lambda: inside(people) == [1, 3])


@pytest.mark.case(14)
async def test_fifty_starts_at_once_are_in_docker_a_few_at_a_time(make_site):
    site = make_site(gpus=1)
    site.desk.turnstile = Turnstile(3)
    users = [site.users[f"user-{number}"] for number in range(50)]
    booting: list[int] = []
    site.docker.before = lambda method: booting.append(
        len(site.docker.created)
        - sum(user.spawner.server is not None and bool(user.spawner.server.port) for user in users)
    )
    await asyncio.gather(*(start(user, profile="cpu") for user in users))
    assert max(booting) <= 3
    told = [[event["message"] for event in user.spawner._feed._events] for user in users]
    waited = [messages for messages in told if "in the queue" in str(messages)]
    assert len(waited) >= 40, "the leases of some come while the first ones have started already"
    assert all("number 1 in the queue" in str(messages) for messages in waited)
    assert len(site.docker.by_id) == 50


@pytest.mark.case(14)
@pytest.mark.case(15)
async def test_waiting_for_a_turn_does_not_count_as_starting(make_site):
    site = make_site(launch_timeout=0.5)
    site.desk.turnstile = Turnstile(1)
    held = site.desk.turnstile.turn(lambda place: None)
    await held.__aenter__()
    waiting = asyncio.ensure_future(start(site.users["ann"], profile="cpu"))
    done, _ = await asyncio.wait([waiting], timeout=0.8)
    assert not done
    await held.__aexit__(None, None, None)
    await waiting
