"""Twenty sessions on real Docker while hub and service are killed: the bill is what Docker says of the containers."""

import contextlib
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import httpx
import pytest
from sqlalchemy import select

from e2e.running import Deployment, agree, deployed, until
from nbgpu.core.periods import to_seconds
from nbgpu.store import open_database
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.schema import SessionRow
from nbgpu.store.work import unit_of_work

pytestmark = pytest.mark.docker
ROOT = Path(__file__).parents[2]
SESSIONS = 20
# So few that there is room though an end is not noticed at once.
WITH_GPU = {1: "t4-shared", 3: "mig-1g", 6: "t4-shared", 8: "mig-1g", 11: "t4-shared", 13: "mig-2g", 18: "a100"}
SETTLED = 100  # seconds: a round of the reconciler and two ticks of the meter


@dataclass
class Truth:
    """When a container started and ended, in nanoseconds, as Docker told at that instant."""

    started: int
    died: int | None = None


class Witness:
    """Listens to Docker's own events all the time."""

    def __init__(self, prefix: str) -> None:
        self.seen: dict[str, Truth] = {}
        self._engine = docker.from_env()
        self._events = self._engine.events(decode=True, filters={"label": f"org.nbgpu.deployment={prefix}"})
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        for event in self._events:
            session = event["Actor"]["Attributes"].get("org.nbgpu.session", "")
            if event["Action"] == "start":
                self.seen[session] = Truth(event["timeNano"])
            elif event["Action"] == "die" and session in self.seen:
                self.seen[session].died = event["timeNano"]

    def close(self) -> None:
        self._events.close()
        self._thread.join(10)
        self._engine.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Deployment]:
    settings = tmp_path_factory.mktemp("bill-site") / "nbgpu.toml"
    settings.write_text((ROOT / "nbgpu.toml").read_text())
    with deployed(tmp_path_factory.mktemp("bill") / "data", settings) as deployment:
        yield deployment


@pytest.fixture
def witness(site) -> Iterator[Witness]:
    found = Witness(site.prefix)
    yield found
    found.close()


def kill_hub(site: Deployment) -> None:
    """kill -9 the hub, and start it again."""
    os.kill(int((site.data / "hub.pid").read_text()), signal.SIGKILL)
    assert site.process is not None
    with contextlib.suppress(subprocess.TimeoutExpired):
        site.process.wait(30)
    site.stop()
    site.start()


def kill_service(site: Deployment) -> None:
    """kill -9 the service; the hub starts it again."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command, environ = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
            if b"nbgpu.wiring.service" in command and f"NBGPU_DATA={site.data}".encode() in environ:
                os.kill(int(folder.name), signal.SIGKILL)


def live(site: Deployment, dice: random.Random) -> None:
    """Start twenty servers in turn; end some by the hub, some in Docker; kill hub and service in between."""
    running: list[tuple[str, str]] = []
    for number in range(SESSIONS):
        server = (site.add_user(f"u{number}"), "")
        with contextlib.suppress(httpx.HTTPError):
            site.started(server[0], profile=WITH_GPU.get(number, "cpu"))
            running.append(server)
        if number % 7 == 3:
            kill_hub(site)
        if number % 5 == 2:
            kill_service(site)
        if len(running) > 3:
            end(site, dice, running.pop(dice.randrange(len(running))))
    for server in running:
        end(site, dice, server)


def end(site: Deployment, dice: random.Random, server: tuple[str, str]) -> None:
    """End a server as users do, or as an out-of-memory killer does."""
    if dice.random() < 0.6:
        site.stop_server(*server)
    else:
        with contextlib.suppress(docker.errors.APIError):
            site.container(*server).kill()


def test_the_bill_is_what_docker_says_whoever_is_killed(site, witness):
    live(site, random.Random(1))
    agree(site)
    engine = open_database(f"sqlite:///{site.data / 'nbgpu.sqlite'}")

    def unsettled() -> list[str]:
        with unit_of_work(engine, reads_only=True) as db:
            return list(db.scalars(select(SessionRow.session_id).where(~SessionRow.settled)))

    until(lambda: not unsettled(), seconds=SETTLED, why="sessions are not settled")
    with unit_of_work(engine, reads_only=True) as db:
        rows = {row.session_id: row for row in db.scalars(select(SessionRow))}
    billed = dict.fromkeys(rows, 0)
    ledger = SqlLedger(engine)
    for charge in ledger.charges():
        if not charge.resource_id:
            billed[charge.session_id] += charge.consumed_seconds
    assert ledger.verify().broken_from is None
    engine.dispose()
    assert len(witness.seen) >= SESSIONS
    for session, truth in witness.seen.items():
        row = rows[session]
        if not row.billable:
            assert billed[session] == 0
            continue
        assert row.ended_at is not None, "somebody saw each of these ends"
        # Docker's event comes some milliseconds after the time that it keeps.
        assert abs(row.active_at.timestamp() - truth.started / 1e9) < 1
        assert abs(row.ended_at.timestamp() - truth.died / 1e9) < 1
        assert billed[session] == to_seconds(row.ended_at) - to_seconds(row.active_at)
    assert sum(billed.values()) > 0
