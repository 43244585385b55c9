"""The hub restarts while one server's address takes connections and never answers: the check of it is bounded."""

import contextlib
import time

import docker
import httpx
import pytest

from e2e.running import until

pytestmark = [pytest.mark.docker, pytest.mark.case(6)]
HUB_START = 25  # seconds that a hub's start may take: JupyterHub waits 10 s for its checks
CHECK = 40  # seconds in which a check is over: the spawner's http_timeout and the end of the server


@pytest.fixture
def black_hole(site):
    """A server whose processes are all frozen, as they were when the hub went; beside it one that is fine."""
    for user in ("b-frozen", "b-fine"):
        site.add_user(user)
    site.start_all([("b-frozen", "", {"profile": "a100"}), ("b-fine", "", {"profile": "cpu"})])
    site.stop()
    container = site.container("b-frozen")
    container.pause()
    yield container
    with contextlib.suppress(docker.errors.APIError):  # it is gone, or not paused any more
        container.unpause()


def restart(site):
    begun = time.monotonic()
    site.start()
    assert time.monotonic() - begun < HUB_START
    assert site.notebook("b-fine", "api/status").status_code == httpx.codes.OK


def test_a_server_that_comes_back_in_time_runs_on(site, black_hole):
    restart(site)
    assert site.server("b-frozen")["pending"] == "check"
    black_hole.unpause()
    model = site.wait_ready("b-frozen")
    assert (model["pending"], site.container("b-frozen").id) == (None, black_hole.id)
    assert site.notebook("b-frozen", "api/status").status_code == httpx.codes.OK
    site.stop_server("b-frozen")


def test_a_server_that_does_not_is_ended_and_can_be_started_anew(site, black_hole):
    restart(site)
    until(lambda: site.server("b-frozen") is None, seconds=CHECK, why="the server is stuck in its check")
    until(lambda: site.lease("b-frozen") is None, seconds=CHECK, why="its devices stay held")
    assert [each.id == black_hole.id for each in site.containers()] == [False]
    site.started("b-frozen", profile="a100")
    assert site.notebook("b-fine", "api/status").status_code == httpx.codes.OK


def test_a_stop_in_the_middle_of_the_check_does_no_harm(site, black_hole):
    restart(site)
    assert site.server("b-frozen")["pending"] == "check"
    site.api.delete("/users/b-frozen/server")  # JupyterHub refuses: it has nothing to interrupt
    until(lambda: site.server("b-frozen") is None, seconds=CHECK, why="the server is stuck in its check")
    until(lambda: site.lease("b-frozen") is None, seconds=CHECK, why="its devices stay held")
