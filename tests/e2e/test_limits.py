"""Quotas, budgets and time limits on a real hub: whatever the way in; told in the container, then stopped."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from bs4 import BeautifulSoup

from e2e.running import until
from nbgpu.spawner.container import NOTICE_FILE

pytestmark = pytest.mark.docker
REFUSED = "You have 1 servers running, and may have 1 at one time. Stop one to start another."
STOPPED = 60  # seconds: two looks, the grace and the stop


def test_a_quota_holds_on_every_way_in(hub):
    user = hub.add_user("single", "one-server")
    hub.started(user, profile="cpu")
    by_admin = hub.start_server(user, "two", profile="cpu")
    own = httpx.post(
        f"{hub.url}/hub/api/users/{user}/servers/three",
        headers={"Authorization": f"token {hub.token(user)}"},
        json={"profile": "cpu"},
        timeout=20,
    )
    for answer in (by_admin, own):
        assert (answer.status_code, answer.json()["message"]) == (403, REFUSED)
    with hub.logged_in(user) as session:
        by_url = session.get(f"/spawn/{user}/two?opt-profile=cpu")
        token = session.cookies.get("_xsrf", path="/hub/")
        form = {"profile": "cpu", "image": "base"}
        by_form = session.post(f"/spawn/{user}/three", params={"_xsrf": token}, data=form)
    for answer in (by_url, by_form):
        page = BeautifulSoup(answer.text, "html.parser")
        assert REFUSED in page.select_one("main").text, answer.text
    assert len(hub.leases()) == 1


def test_of_two_starts_at_once_a_quota_lets_one_in(hub):
    user = hub.add_user("twice", "one-server")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda name: hub.start_server(user, name, profile="cpu"), ["", "a", "b", "c"]))
    assert sorted(answer.status_code in (201, 202) for answer in answers) == [False, False, False, True]
    assert {answer.status_code for answer in answers if answer.status_code > 202} == {403}


def test_a_time_limit_is_told_in_the_container_and_then_ends_the_server(hub):
    user = hub.add_user("short", "brief")
    hub.started(user, profile="brief")
    container = hub.container(user)

    def notice() -> dict[str, str] | None:
        code, output = container.exec_run(["cat", NOTICE_FILE])
        return json.loads(output) if code == 0 else None

    told = until(notice, seconds=STOPPED)
    assert told["cause"] == "time_limit"
    assert "its time limit is reached" in told["text"]
    until(lambda: hub.server(user) is None, seconds=STOPPED)
    assert why(hub, user) == "It was stopped: its time limit is reached."


def test_a_budget_that_is_spent_ends_what_it_pays_for_and_starts_nothing(hub):
    user = hub.add_user("spender", "poor")
    hub.started(user, profile="dear")
    hub.command("prices", "set", "dear:host:on-demand", "200", "--config", str(hub.settings))
    until(lambda: hub.server(user) is None, seconds=STOPPED)
    assert why(hub, user) == "It was stopped: the budget that pays for it is used up."
    (account,) = json.loads(hub.command("budgets", "--json", "--config", str(hub.settings)))
    assert account["spent_micro"] >= account["amount_micro"] == 100_000
    refused = hub.start_server(user, profile="dear")
    assert refused.status_code == 403
    assert "The budget of group “poor” can't pay for “Dear”" in refused.json()["message"]
    actions = {entry["action"] for entry in json.loads(hub.command("audit", "--json", "--config", str(hub.settings)))}
    assert {"price.set", "stop.budget"} <= actions


def why(hub, user: str) -> str:
    """What a user's home page says of the end of their server."""
    with hub.logged_in(user) as session:
        page = BeautifulSoup(session.get("/home").text, "html.parser")
    text: str = page.select_one(".home-server-row .nbgpu-words").text
    return text[text.index("It was stopped") :]
