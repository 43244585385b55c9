"""The hub comes and goes, by Ctrl-C and by SIGKILL; notebooks live on, and stay who they are."""

import pytest

from e2e.running import until

pytestmark = pytest.mark.docker
KINDS = {"k-cpu": "cpu", "k-mig": "mig-2g", "k-shared": "t4-shared", "k-gpu": "a100"}


def picture(hub):
    """What is known of every server: by the hub, by `nbgpu leases`, and in Docker."""
    models = {user: hub.server(user) for user in KINDS}
    hub_side = {user: (model["user_options"], model["state"], model["started"]) for user, model in models.items()}
    docker_side = {
        user: (container.id, container.attrs["State"]["StartedAt"], container.attrs["State"]["Pid"])
        for user, container in ((user, hub.container(user)) for user in KINDS)
    }
    return hub_side, hub.listed_leases(), docker_side


def answers(hub):
    return {user: hub.notebook(user, "api/status").status_code for user in KINDS}


@pytest.mark.case(11)
def test_servers_outlive_the_hub(hub):
    for user in KINDS:
        hub.add_user(user)
    hub.start_all([(user, "", {"profile": flavor}) for user, flavor in KINDS.items()])
    before = picture(hub)
    hub_side, leases, _ = before
    for user, flavor in KINDS.items():
        options, state, _ = hub_side[user]
        (lease,) = [each for each in leases if each["username"] == user]
        held = [slot["device_uuid"] for slot in lease["devices"]]
        assert options == {"profile": flavor, "image": "base"}
        assert (state["flavor"], state["session_id"], state["device_uuids"]) == (flavor, lease["session_id"], held)
        assert len(held) == (0 if flavor == "cpu" else 1)
        assert (lease["flavor"], lease["image"], lease["state"]) == (flavor, "base", "active")
    for end in (hub.stop, hub.kill):
        end()
        until(lambda: not hub.serves(), seconds=10, why="the hub goes on without its `nbgpu run`")
        assert all(each.attrs["State"]["Running"] for each in hub.containers())
        hub.start()
        assert answers(hub) == dict.fromkeys(KINDS, 200)
        assert picture(hub) == before
    hub.stop_server("k-mig")  # what was taken up can be ended
    assert hub.lease("k-mig") is None
    assert len(hub.containers()) == len(KINDS) - 1
