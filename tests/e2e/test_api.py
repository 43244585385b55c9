"""The REST API of a running site: statements, budgets and quotas, each reader sees what they may."""

import csv
import io
import json

import httpx
import pytest

from e2e.running import until
from nbgpu.client import Client, ServiceRefused

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def used(shared_hub):
    """Ann has run a server, bob too; return them."""
    for user in ("api-ann", "api-bob"):
        shared_hub.add_user(user)
        shared_hub.started(user, profile="cpu")
        shared_hub.stop_server(user)
    return "api-ann", "api-bob"


@pytest.fixture
def ask(shared_hub):
    """Ask the API as somebody, by a token; return the answer."""

    def ask(path: str, token: str | None, **parameters: str) -> httpx.Response:
        headers = {"Authorization": f"token {token}"} if token else {}
        url = f"{shared_hub.url}/services/nbgpu/api/v1/{path}"
        return until(lambda: _started(httpx.get(url, params=parameters, headers=headers, timeout=20)))

    return ask


def _started(answer: httpx.Response) -> httpx.Response | None:
    return None if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE else answer


def admin(hub) -> str:
    return (hub.data / "demo-admin-token").read_text().strip()


def test_a_user_reads_their_own_usage_and_nobody_elses(shared_hub, used, ask):
    token = shared_hub.token(used[0])
    mine = ask("usage", token).json()
    assert [line["user"] for line in mine["lines"]] == ["api-ann"]
    assert mine["totals"][0]["server_seconds"] == mine["lines"][0]["server_seconds"] >= 1
    assert ask("usage", token, user="api-ann").json()["lines"] == mine["lines"]
    refused = ask("usage", token, user="api-bob")
    assert (refused.status_code, refused.headers["content-type"]) == (403, "application/problem+json")
    assert refused.json()["detail"] == "This token reads its own user's usage only."
    assert ask("quotas", token, user="api-bob").status_code == 403
    assert ask("budgets", token, user="api-bob").status_code == 403
    by_group = ask("usage", token, group="staff", by="user").json()
    assert by_group["lines"] == []


def test_an_administrator_reads_all(shared_hub, used, ask):
    everybody = ask("usage", admin(shared_hub), by="user,day").json()
    assert {line["user"] for line in everybody["lines"]} >= set(used)
    assert everybody["by"] == ["user", "day"]
    one = ask("usage", admin(shared_hub), user="api-bob").json()
    assert [line["user"] for line in one["lines"]] == ["api-bob"]
    assert ask("budgets", admin(shared_hub)).status_code == 200
    prices = ask("prices", admin(shared_hub)).json()["prices"]
    assert "a100:gpu:on-demand" in {price["sku_id"] for price in prices}


def test_csv_adds_up_to_the_statement_and_focus_has_its_columns(shared_hub, used, ask):
    answer = ask("usage", admin(shared_hub), format="csv", by="user", timezone="Asia/Kathmandu")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert {row["user"] for row in rows} >= set(used)
    focus = list(csv.DictReader(io.StringIO(ask("usage", admin(shared_hub), format="focus").text)))
    assert {"BilledCost", "ChargePeriodStart", "SkuId"} <= set(focus[0])


@pytest.mark.parametrize(
    ("path", "parameters", "status", "detail"),
    [
        ("usage", {"by": "colour"}, 400, "by “colour” is not known; there are: user, group, flavor"),
        ("usage", {"month": "May"}, 400, "month must be a date like 2026-11"),
        ("usage", {"timezone": "Mars"}, 400, "There is no time zone “Mars”"),
        ("usage", {"format": "pdf"}, 400, "There is no format “pdf”; there are: json, csv, focus."),
        ("usage", {"from": "2026-05-02", "to": "2026-05-01"}, 400, "from 2026-05-02 is after to 2026-05-01."),
        ("prices", {"sku": "x"}, 400, "There is no parameter “sku”; there are: none."),
        ("quota", {}, 404, "Not Found"),
    ],
)
def test_what_makes_no_sense_is_a_problem(shared_hub, used, ask, path, parameters, status, detail):
    answer = ask(path, admin(shared_hub), **parameters)
    assert answer.status_code == status
    if status != 404:
        assert detail in answer.json()["detail"]
        assert "Traceback" not in answer.text


def test_without_a_token_nothing_is_told(shared_hub, ask):
    for token in (None, "0" * 64):
        answer = ask("usage", token)
        assert (answer.status_code, answer.json()["title"]) == (401, "Unauthorized")


def test_a_token_for_something_else_reads_nothing(shared_hub, used, ask):
    made = shared_hub.api.post("/users/api-ann/tokens", json={"scopes": ["read:users!user"]}).raise_for_status()
    assert ask("usage", made.json()["token"]).status_code == 403


def test_the_command_lists_and_stops_servers_through_the_service(shared_hub, used):
    shared_hub.started(used[0], profile="cpu")
    found = json.loads(shared_hub.command("sessions", "--user", used[0], "--json"))
    assert [(each["user"], each["flavor"]["slug"], each["ended_at"]) for each in found] == [(used[0], "cpu", None)]
    said = shared_hub.command("sessions", "stop", used[0], "--reason", "a fan")
    assert said.strip() == f"{used[0]} is being stopped."
    until(lambda: shared_hub.server(used[0]) is None)
    ended = json.loads(
        shared_hub.command("sessions", "--user", used[0], "--state", "ended", "--sort=-started", "--json")
    )
    assert ended[0]["session_id"] == found[0]["session_id"]
    with Client(f"{shared_hub.url}/services/nbgpu", shared_hub.token(used[1]), direct=True) as bob:
        assert {each.user for each in bob.sessions(state="all")} == {used[1]}
        with pytest.raises(ServiceRefused, match="may not read of that session"):
            bob.session(found[0]["session_id"])
