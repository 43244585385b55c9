"""Starts that are cancelled or fail, and servers that die: nothing stays held, and the next start works."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.running import until
from nbgpu.core.leases import LeaseState

pytestmark = pytest.mark.docker


def is_pending(hub, user):
    return (hub.server(user) or {}).get("pending") == "spawn"


def has_lease(hub, user):
    return hub.lease(user) is not None


def has_container(hub, user):
    return bool(hub.containers())


def is_active(hub, user):
    return (lease := hub.lease(user)) is not None and lease.state is LeaseState.ACTIVE


@pytest.mark.case(10)
def test_a_start_can_be_cancelled_at_any_moment(hub):
    user = hub.add_user("mute-cancels")  # its server never answers
    with ThreadPoolExecutor() as pool:
        for moment in (is_pending, has_lease, has_container, is_active):
            start = pool.submit(hub.start_server, user, profile="mig-1g")
            until(lambda moment=moment: moment(hub, user), why=f"never: {moment.__name__}")
            hub.stop_server(user)
            until(lambda: not hub.leases() and not hub.containers(), seconds=5, why=f"left after {moment.__name__}")
            assert start.result(15).status_code != 201
    other = hub.add_user("after-cancels")
    hub.started(other, profile="mig-1g")
    assert len(hub.leases()) == 1


@pytest.mark.case(9)
def test_a_server_that_ends_at_once_says_why(hub):
    user = hub.add_user("broken-rest")
    answer = hub.start_server(user, profile="mig-1g")
    assert answer.status_code == 500
    message = answer.json()["message"]
    assert "exit code 3" in message
    assert "broken config" in message
    assert (hub.leases(), hub.containers()) == ((), [])


def test_a_server_that_dies_is_noticed_long_before_the_hub_asks(hub):
    user = hub.add_user("dies-alone")
    hub.started(user, profile="cpu")
    hub.container(user).kill()
    until(lambda: hub.server(user) is None and hub.lease(user) is None, seconds=8, why="nobody noticed")


def test_a_killed_server_is_noticed_and_its_devices_are_free(hub):
    user = hub.add_user("dies")
    hub.started(user, profile="a100")
    first = hub.lease(user)
    container = hub.container(user)
    container.kill()
    answer = hub.start_server(user, profile="mig-2g")  # the hub asks before it says "is already running"
    assert answer.status_code in (201, 202), answer.text
    hub.wait_ready(user)
    (lease,) = hub.leases()
    assert (lease.flavor, lease.session_id != first.session_id) == ("mig-2g", True)
    (left,) = hub.containers()
    assert left.id != container.id
    assert hub.notebook(user, "api/status").status_code == 200
