"""The list of sessions over the REST API, and what is done to one, over a real database."""

import httpx
import pytest

from service.api_site import authorization, serving
from service.sessions_site import SessionsSite


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    found = SessionsSite(tmp_path_factory.mktemp("sessions"), 30)
    found.add("ann", found.clock())
    found.add("bob", found.clock(), time_limit=None)
    yield found
    found.engine.dispose()


@pytest.fixture(scope="module")
def client(site):
    with serving(site.books()) as address, httpx.Client(base_url=f"{address}api/v1/", trust_env=False) as found:
        yield found


def ask(client, who, **query):
    return client.get("sessions", params=query, headers=authorization(who))


def send(client, who, what, **body):
    return client.post(f"sessions/{what}", json=body, headers=authorization(who))


@pytest.mark.parametrize("sort", ["started", "-started", "user", "flavor", "cost", "-cost", "-ran"])
def test_pages_are_the_whole_list_once(client, sort):
    found, cursor = [], None
    while not found or cursor:
        answer = ask(client, "admin", state="all", sort=sort, limit=7, **({"cursor": cursor} if cursor else {})).json()
        found += [each["session_id"] for each in answer["sessions"]]
        cursor = answer["next"]
        assert answer["total"] == 32
    assert (len(found), len(set(found))) == (32, 32)


def test_one_sees_ones_own_and_who_reads_all_those_that_are_looked_for(client):
    own = ask(client, "ann").json()
    assert ([each["user"] for each in own["sessions"]], own["next"], own["total"]) == (["ann"], None, 1)
    ended = ask(client, "reader", state="ended", q="user-2").json()["sessions"]
    assert {each["user"] for each in ended} == {"user-2", "user-20", "user-23", "user-26", "user-29"}
    assert all(each["ended_at"] and each["messages"] == [] for each in ended)
    assert ask(client, "ann", user="bob").status_code == 403


@pytest.mark.parametrize(
    "query", [{"state": "x"}, {"sort": "x"}, {"limit": 0}, {"cursor": "x"}, {"from": "x"}, {"size": 1}]
)
def test_what_makes_no_sense_is_refused_in_words(client, query):
    answer = ask(client, "admin", **query)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert next(iter(query)) in answer.json()["detail"].casefold() or "day" in answer.json()["detail"]


def test_a_cursor_is_of_one_order(client):
    cursor = ask(client, "admin", sort="user", limit=1).json()["next"]
    answer = ask(client, "admin", sort="flavor", cursor=cursor)
    assert (answer.status_code, "another order" in answer.json()["detail"]) == (400, True)


def test_who_operates_lets_one_run_longer(client):
    answer = send(client, "operator", "s-ann/limit", seconds=600)
    assert (answer.status_code, answer.json()["time_limit_s"]) == (200, 36600)
    without = send(client, "operator", "s-bob/limit", seconds=600)
    assert (without.status_code, "no time limit" in without.json()["detail"]) == (409, True)


def test_a_server_is_stopped_by_its_person_or_with_a_reason(client, site):
    assert send(client, "ann", "s-ann/stop", reason="").status_code == 204
    assert send(client, "operator", "s-bob/stop", reason=" ").status_code == 400
    assert send(client, "operator", "s-bob/stop", reason="a fan").status_code == 204
    assert send(client, "bob", "s-ann/stop", reason="x").status_code == 403
    assert send(client, "operator", "s-user-2/stop", reason="x").status_code == 404
    site.hub.silent = {"user-3"}
    assert send(client, "operator", "s-user-3/stop", reason="x").status_code == 503
    assert site.hub.stopped == ["ann", "bob"]
    assert [each for each in site.notes if each[0] in ("s-ann", "s-bob")] == [
        ("s-bob", "stopped by an administrator: a fan")
    ]
