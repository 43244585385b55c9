"""Starts over the REST API and by URL: every way in is judged by the same rules."""

import httpx
import pytest
from bs4 import BeautifulSoup

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def user(shared_hub):
    """Somebody whose starts are all refused."""
    return shared_hub.add_user("refused")


REFUSALS = [
    ({"profile": "nope"}, 400, "There is no flavor “nope”. You may take: cpu, mig-1g"),
    ({"profile": "cpu", "gpus": "8"}, 400, "Unknown server option “gpus”"),
    ({"image": "nvidia/cuda:latest"}, 400, "“CPU only” has no image “nvidia/cuda:latest”"),
    ({"profile": 7}, 400, "must be one text; got int"),
    ({"profile": ["cpu", "a100"]}, 400, "must be one text; got list"),
    ({"profile": "x" * 65}, 400, "must be a slug of the menu"),
    ({"profile": "staff-only"}, 403, "“Staff's own” is open to staff only"),
]


@pytest.mark.case(12)
@pytest.mark.parametrize(("options", "status", "message"), REFUSALS)
def test_a_refusal_says_why_and_takes_nothing(hub, user, options, status, message):
    answer = hub.start_server(user, **options)
    assert (answer.status_code, answer.json()["status"]) == (status, status)
    assert message in answer.json()["message"]
    assert hub.leases() == ()
    assert hub.server(user) is None


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("opt-profile=nope", 400, "There is no flavor “nope”"),
        ("opt-profile=cpu&opt-gpus=8", 400, "Unknown server option “gpus”"),
        ("opt-profile=staff-only", 403, "open to staff only"),
    ],
)
def test_a_refused_url_shows_the_form_again_with_the_reason(hub, user, query, status, message):
    with hub.logged_in(user) as session:
        answer = session.get(f"/spawn/{user}?{query}")
    page = BeautifulSoup(answer.text, "html.parser")
    assert answer.status_code == status
    assert message in page.select_one("[role=alert]").text
    assert page.select_one("#start-server")
    assert "Traceback" not in answer.text
    assert hub.leases() == ()


def test_a_group_and_a_url_open_what_they_name(hub):
    teacher = hub.add_user("teacher", "staff")
    with hub.logged_in(teacher) as session:
        answer = session.get(f"/spawn/{teacher}?opt-profile=staff-only&opt-image=base", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"].split("?")[0]) == (302, f"/hub/spawn-pending/{teacher}")
    model = hub.wait_ready(teacher)
    assert model["user_options"] == {"profile": "staff-only", "image": "base"}
    assert hub.lease(teacher).flavor == "staff-only"


@pytest.mark.case(3)
def test_named_servers_run_side_by_side(hub):
    user = hub.add_user("many")
    names = ["", "two", "three"]
    hub.start_all([(user, name, {"profile": "cpu"}) for name in names])
    assert len(hub.containers()) == 3
    assert len({hub.container(user, name).name for name in names}) == 3
    hub.stop_server(user, "two")
    assert hub.lease(user, "two") is None
    assert len(hub.containers()) == 2
    for name in ("", "three"):
        assert hub.notebook(user, "api/status", name).status_code == httpx.codes.OK
    with hub.logged_in(user) as session:
        page = session.get(f"{hub.url}/user/{user}/two/lab", follow_redirects=True)
        assert "The server “two” is not running" in page.text, "the address of a stopped server is the hub's"
        assert f'href="/hub/spawn/{user}/two' in page.text


def test_another_sites_link_starts_nothing(hub):
    """A link that starts at once opens the form when another site leads to it."""
    hub.add_user("linked")
    with hub.logged_in("linked") as session:
        page = session.get("/spawn?opt-profile=cpu", headers={"Sec-Fetch-Site": "cross-site"})
        assert page.status_code == 200
        assert "spawn_form" in page.text
        assert hub.server("linked") is None
        session.get("/spawn?opt-profile=cpu", headers={"Sec-Fetch-Site": "none"})
        hub.wait_ready("linked")


def test_nobody_is_renamed(hub):
    """A home belongs to its name: renamed, a person would lose it to whoever gets the old name."""
    hub.add_user("named")
    answer = hub.api.patch("/users/named", json={"name": "renamed"})
    assert answer.status_code == 400
    assert "Users are not renamed" in answer.json()["message"]
    assert hub.api.patch("/users/named", json={"admin": False}).status_code == 200
    assert hub.api.patch("/users/named", json=["name"]).status_code == 400
    assert hub.api.get("/users/renamed").status_code == 404
