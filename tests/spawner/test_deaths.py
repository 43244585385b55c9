"""A server that dies is noticed when Docker tells of it, long before the hub would ask."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from nbgpu.spawner.deaths import DeathWatch
from support.site import until
from support.users import start


@pytest.mark.parametrize("name", ["", "lab"])
async def test_a_server_that_dies_gives_its_devices_back_at_once(site, name):
    ann = site.users["ann"]
    await start(ann, name, profile="two")
    noticed = asyncio.Event()

    async def note() -> None:
        noticed.set()

    ann.spawners[name].add_poll_callback(note)  # where the hub takes the route away
    await until(lambda: site.docker._listeners)
    site.docker.end(ann.spawners[name].object_id, exit_code=1)
    async with asyncio.timeout(5):
        await noticed.wait()
    assert site.leases.open_leases() == ()


async def test_a_stop_is_no_death(site):
    ann = site.users["ann"]
    await start(ann, profile="one")
    await until(lambda: site.docker._listeners)
    await ann.stop()
    view = site.desk.sessions("ann", [""])[""]
    assert "on request" in str(view.ending.why)


class Away:
    """An engine that is away at first, and then tells of two ends."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.ended = threading.Event()

    def events(self, *, since: int, filters: dict[str, str], decode: bool) -> Iterator[dict[str, Any]]:
        self.asked.append(since)
        if len(self.asked) == 1:
            raise requests.ConnectionError("refused")
        yield {"id": "other", "time": since}
        yield {"id": "mine", "time": since + 1}
        self.ended.wait(10)


async def test_what_ends_while_docker_is_away_is_told_afterwards(monkeypatch):
    monkeypatch.setattr("nbgpu.spawner.deaths._LONGEST_PAUSE", 0.01)
    engine, told = Away(), asyncio.Event()
    deaths = DeathWatch(engine, "a=b")

    async def note() -> None:
        told.set()

    deaths.watch("mine", note)
    async with asyncio.timeout(5):
        await told.wait()
    assert engine.asked[1] >= engine.asked[0], "it asks for what came since it last heard"
    engine.ended.set()
