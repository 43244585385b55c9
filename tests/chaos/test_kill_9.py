"""kill -9 of the hub at each step of a start and a stop, on real Docker.

After the restart lease rows, containers and the hub agree within a minute, and a running notebook of somebody else
never noticed. CI strikes four times at four steps and twice at the others; `make chaos` fifty times at each.
"""

import contextlib
import os
import subprocess

import httpx
import pytest

from e2e.running import Deployment, agree

pytestmark = pytest.mark.docker
ROUNDS = os.environ.get("NBGPU_CHAOS_ROUNDS")
OFTEN = {"after acquire", "after _create", "after activate", "after mark_ending"}
START_STEPS = [
    "before acquire",
    "after acquire",
    "after _create",
    "after start_object",
    "before activate",
    "after activate",
    "after start",
]
STOP_STEPS = ["before mark_ending", "after mark_ending", "after shut_down", "after release"]


@pytest.fixture(scope="module")
def bystander(chaos: Deployment) -> str:
    """A notebook that runs all the time; returns its container's id."""
    chaos.add_user("bystander")
    chaos.add_user("victim")
    chaos.started("bystander", profile="t4-shared")
    return str(chaos.container("bystander").id)


def rounds(step: str) -> range:
    """How often to strike at a step."""
    return range(int(ROUNDS or (4 if step in OFTEN else 2)))


def strike(chaos: Deployment, step: str, work) -> None:
    """Do `work`, in the middle of which the hub is killed, and start the hub again."""
    (chaos.data / "kill-at").write_text(step)
    with contextlib.suppress(httpx.HTTPError):
        work()
    assert chaos.process is not None
    with contextlib.suppress(subprocess.TimeoutExpired):
        chaos.process.wait(30)
    assert chaos.process.poll() is not None, f"the hub was not killed {step}"
    assert not (chaos.data / "kill-at").exists()
    chaos.stop()  # closes what the dead process wrote to
    chaos.start()


@pytest.mark.case(9)
@pytest.mark.case(28)
@pytest.mark.parametrize("step", START_STEPS)
def test_killed_in_a_start(chaos, bystander, step):
    for _ in rounds(step):
        strike(chaos, step, lambda: chaos.start_server("victim", profile="a100"))
        agree(chaos)
        assert chaos.container("bystander").id == bystander
        if chaos.lease("victim") is not None:
            assert chaos.notebook("victim", "api/status").status_code == httpx.codes.OK
            chaos.stop_server("victim")
        agree(chaos)
        assert chaos.lease("victim") is None


@pytest.mark.case(8)
@pytest.mark.parametrize("step", STOP_STEPS)
def test_killed_in_a_stop(chaos, bystander, step):
    for _ in rounds(step):
        chaos.started("victim", profile="a100x2")
        strike(chaos, step, lambda: chaos.api.delete("/users/victim/server"))
        agree(chaos)
        assert chaos.container("bystander").id == bystander
        if chaos.server("victim") is not None:
            chaos.stop_server("victim")
            agree(chaos)
        assert chaos.lease("victim") is None
