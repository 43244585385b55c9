"""A round of the culler over 5,000 running servers, against one of the stock culler on the same stub of a hub."""

import asyncio
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from jupyterhub_idle_culler import cull_idle

from bench.figures import Figure, median
from nbgpu.wiring.culler import Culler, Service
from nbgpu.wiring.deployment import open_deployment
from support.stub_hub import TOKEN

ACTIVE, DUE, ROUNDS, MORE_ROUNDS = 5000, 50, 5, 20
PAGE = os.sysconf("SC_PAGE_SIZE")
TIMEOUT = 3600  # seconds of the stock culler
STUB = """
import sys
from support.stub_hub import StubHub, serving, session_of

users, due = map(int, sys.argv[1:])
hub = StubHub(users)
chosen = set(range(0, users, users // due)) if due else set()
hub.touch(number for number in range(users) if number not in chosen)  # to the stock culler the others are active
hub.due = {session_of(number) for number in chosen}
with serving(hub):
    print(hub.port, flush=True)
    sys.stdin.read()
    print(len(hub.stops), flush=True)
"""

Round = Callable[[int, Path], Awaitable[None]]  # over the stub at a port, with a folder for what it keeps


def measure_culling() -> Iterator[Figure]:
    """Seconds of a round that stops 50 servers, and of one for which nothing is due; what memory rounds add."""
    logging.getLogger("nbgpu.culler").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        for name, due, goal in (("cull.round", DUE, "ours under 5"), ("cull.idle_round", 0, "ours under 0.1x")):
            ours, theirs = ([_seconds(each, due, Path(folder)) for _ in range(ROUNDS)] for each in (_ours, _stock))
            yield Figure(name, median(ours), median(theirs), "s", goal)
        with _stub(DUE, stops=DUE) as port:
            asyncio.run(_ours(port, Path(folder)))
            yield Figure("cull.memory", _growth(port, Path(folder)), None, "MiB", "ours under 2")


def _seconds(one_round: Round, due: int, folder: Path) -> float:
    with _stub(due, stops=due) as port:
        begun = time.perf_counter()
        asyncio.run(one_round(port, folder))
        return time.perf_counter() - begun


async def _ours(port: int, folder: Path) -> None:
    deployment = open_deployment(folder)
    (folder / "service-port").write_text(f"{port}\n")
    service = Service(deployment, TOKEN)
    await Culler(service=service, hub_url=f"http://127.0.0.1:{port}/hub/api", token=TOKEN).round()


async def _stock(port: int, folder: Path) -> None:
    """As its own command calls it."""
    await cull_idle(f"http://127.0.0.1:{port}/hub/api", TOKEN, TIMEOUT, logging.getLogger("nbgpu.culler"))


def _growth(port: int, folder: Path) -> float:
    """MiB that this process grew by over rounds that go through all servers."""
    from nbgpu.telemetry.cull_round import cull_round

    async def nobody() -> tuple[str, ...]:
        return ()

    async def rounds(count: int) -> None:
        for _ in range(count):
            await cull_round(f"http://127.0.0.1:{port}/hub/api", TOKEN, due=["nobody's"], still_due=nobody)

    asyncio.run(rounds(3))
    before = _resident()
    asyncio.run(rounds(MORE_ROUNDS))
    return (_resident() - before) / 2**20


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


@contextmanager
def _stub(due: int, *, stops: int) -> Iterator[int]:
    """A stub in a process of its own, as the hub is; give its port. It must have been asked for so many stops."""
    process = subprocess.Popen(
        [sys.executable, "-c", STUB, str(ACTIVE), str(due)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    yield int(process.stdout.readline())
    told, _ = process.communicate(timeout=30)
    assert int(told) == stops, f"{told.strip()} stops for {stops}"
