"""The page of all sessions: filter, order, pages and file; what is done to many, once each, and its results."""

import csv
import io
from datetime import timedelta
from itertools import chain

import pytest

from nbgpu.core.texts import Text
from nbgpu.service.bulk import Bulk
from nbgpu.service.pages.sessions import PAGE
from service.browse import EVIL, PREFIX
from service.idle_book import make_view
from service.pool_site import NOW, browsing
from service.sessions_site import SessionsSite
from service.test_pages import parse

XSRF = 'input[name="_xsrf"]'


@pytest.fixture
def site(tmp_path):
    found = SessionsSite(tmp_path, 9)
    yield found
    found.engine.dispose()


def rows(page) -> list[str]:
    return [each["data-session"].removeprefix("s-user-") for each in parse(page).select("tr[data-session]")]


def alert(page) -> str:
    return parse(page).select_one("[role=alert]").text


async def send(client, *sessions: str, **fields: str):
    """Send the form below the table."""
    xsrf = parse(await client.get("sessions")).select_one(XSRF)["value"]
    return await client.post("sessions/plan", data={"_xsrf": xsrf, "session": list(sessions), **fields})


async def confirm(client, answer):
    """Click on the plan that an answer leads to; return its path."""
    path = answer.headers["location"].removeprefix(PREFIX)
    xsrf = parse(await client.get(path)).select_one(XSRF)["value"]
    assert (await client.post(path, data={"_xsrf": xsrf})).status_code == 303
    return path


async def confirm_again(client, path):
    """Send the click another time, as a reload does."""
    xsrf = parse(await client.get("sessions")).select_one(XSRF)["value"]
    assert (await client.post(path, data={"_xsrf": xsrf})).status_code == 303


async def results(client, path) -> dict[str, str]:
    """Return what became of each, once the plan is over."""
    while (page := parse(await client.get(path))).select_one("#plan")["data-state"] != "over":
        pass
    return {each["data-session"]: each.select_one("td:last-child").text for each in page.select("tr[data-session]")}


@pytest.mark.parametrize("name", ["ann", "rita", "bill"])
async def test_it_is_for_those_who_operate(site, name):
    async with browsing(site.books(), name) as client:
        answers = [await client.get(f"sessions{each}") for each in ("", "/file", "/plan/x")]
    assert [each.status_code for each in answers] == [403] * 3


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", list("013467")),
        ("state=ended", list("258")),
        ("state=all&sort=started", list("876543210")),
        ("q=USER-1", ["1"]),
        ("user=user-4", ["4"]),
        ("group=ml", ["0"]),
        ("flavor=gone", []),
        ("state=all&from=2026-03-10&to=2026-03-10&sort=user", list("012345678")),
        ("state=all&to=2026-03-09", []),
        ("sort=ran", list("013467")),
    ],
)
async def test_what_is_looked_for_is_shown(site, query, found):
    async with browsing(site.books(), "eve") as client:
        page = await client.get(f"sessions?{query}")
    assert rows(page) == found
    assert f"Sessions: {len(found)}. Days" in page.text


@pytest.mark.parametrize("query", ["state=x", "sort=size", "from=x", "after=x", "after=WyJ4Il0"])
async def test_what_makes_no_sense_is_refused_in_words(site, query):
    async with browsing(site.books(), "eve") as client:
        answer = await client.get(f"sessions?{query}")
    assert (answer.status_code, "Traceback" in answer.text) == (400, False)


async def test_pages_and_file_have_all_with_the_filter(tmp_path):
    site = SessionsSite(tmp_path, PAGE * 2 + 30)
    async with browsing(site.books(), "eve") as client:
        seen, where = [], "sessions?state=all&sort=started&q=user"
        while where:
            page = await client.get(where)
            seen.append(rows(page))
            links = {each["rel"][0]: each["href"] for each in parse(page).select("a[rel]")}
            where = links.get("next", "").removeprefix(PREFIX)
        back = await client.get(links["prev"].removeprefix(PREFIX))
        file = (await client.get("sessions/file?state=all&sort=started&q=user")).text
    site.engine.dispose()
    listed = [*chain.from_iterable(seen)]
    assert [len(each) for each in seen] == [PAGE, PAGE, 30]
    assert sorted(listed, key=int) == [str(number) for number in range(PAGE * 2 + 30)]
    assert rows(back) == seen[1]
    lines = list(csv.DictReader(io.StringIO(file)))
    assert [line["user"].removeprefix("user-") for line in lines] == listed
    assert (lines[-1]["ran_s"], lines[-1]["state"], lines[-1]["currency"]) == ("3600", "not known", "USD")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(126, "2 min 6 s"), (59, "59 s"), (3600, "1 h"), (3659.6, "1 h 1 min"), (-3, "0 s")]
)
async def test_how_long_it_ran_is_told_to_the_second_below_an_hour_and_exact_in_the_file(site, seconds, shown):
    ended = NOW - timedelta(days=1)
    site.add("short", ended - timedelta(seconds=seconds), ended)
    async with browsing(site.books(), "eve") as client:
        page = parse(await client.get("sessions?state=all&q=short"))
        (line,) = csv.DictReader(io.StringIO((await client.get("sessions/file?state=all&q=short")).text))
    assert page.select_one("td[data-label='Ran for']").text == shown
    assert line["ran_s"] == str(max(0, round(seconds)))
    assert "Sessions: 1. Days are" in page.select_one("main").text


async def test_a_name_is_shown_as_it_is(site):
    site.add(EVIL, NOW)
    async with browsing(site.books(), "eve") as client:
        page = await client.get("sessions", params={"q": EVIL})
    assert parse(page).select_one("tr[data-session] td:nth-child(2)").text == EVIL


async def test_many_are_stopped_once_each_and_each_has_its_result(site):
    site.hub.silent = {"user-1"}
    site.add("gone", NOW)
    async with browsing(site.books(), "eve") as client:
        answer = await send(client, "s-user-0", "s-user-1", "s-gone", "s-user-2", act="stop", reason="a fan is loud")
        assert answer.status_code == 303
        assert site.hub.stopped == [], "a preview does nothing"
        path = await confirm(client, answer)
        found = await results(client, path)
        status = parse(await client.get(path)).select_one("#plan [role=status]").text
        assert status == "Done: 3 of 3. Not as meant: 2."
        await confirm_again(client, path)
        again = await results(client, path)
    assert (
        found
        == again
        == {
            "s-user-0": "The hub stops it.",
            "s-user-1": "The hub did not answer.",
            "s-gone": "It had ended already.",
        }
    )
    assert site.hub.stopped == ["user-0"]
    assert ("s-user-0", "stopped by an administrator: a fan is loud") in site.notes
    written = {(each.actor, each.action, each.subject) for each in site.audit.latest()}
    assert written == {
        ("eve", "server.stop", "user-0"),
        ("eve", "server.stop", "user-1"),
        ("eve", "server.stop-failed", "user-1"),
    }


async def test_all_that_match_are_extended_and_nobody_else(site):
    async with browsing(site.books(), "eve") as client:
        answer = await send(client, all="1", q="user-", state="all", act="limit", span="7200")
        path = await confirm(client, answer)
        found = await results(client, path)
        status = parse(await client.get(path)).select_one("#plan [role=status]").text
        assert status == f"Done: {len(found)} of {len(found)}."
        idle = await results(client, await confirm(client, await send(client, "s-user-3", act="extend", span="3600")))
    assert found == {f"s-user-{number}": "Its time limit is later." for number in (0, 1, 3, 4, 6, 7)}
    assert idle == {"s-user-3": "It is extended."}
    assert site.books().idle.find("s-user-3").time_limit == 43200
    assert site.books().idle.find("s-user-2").time_limit == 36000


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"session": "s-user-0", "act": "stop", "reason": " "}, "Say why"),
        ({"act": "stop", "reason": "a fan"}, "Tick the servers"),
        ({"session": "s-user-2", "act": "stop", "reason": "a fan"}, "Tick the servers"),
        ({"session": "s-user-0", "act": "burn"}, "Choose what"),
        ({"session": "s-user-0", "act": "extend", "span": "1"}, "Choose for how long"),
    ],
)
async def test_a_form_that_lacks_something_says_what(site, fields, problem):
    async with browsing(site.books(), "eve") as client:
        answer = await send(client, **fields)
    assert answer.status_code == 400
    assert problem in alert(answer)
    assert rows(answer) == list("013467"), "the table is there"


async def test_a_plan_is_its_makers_alone(site):
    async with browsing(site.books(), "eve") as client:
        path = (await send(client, "s-user-0", act="stop", reason="a fan")).headers["location"].removeprefix(PREFIX)
        forged = await client.post(path, data={"_xsrf": "x"})
    async with browsing(site.books(), "root") as client:
        other = await client.get(path)
    assert (forged.status_code, other.status_code, site.hub.stopped) == (403, 404, [])


def test_plans_are_bounded_and_a_surprise_is_one_result():
    bulk = Bulk(kept=2, at_once=3)
    views = [make_view(f"a-{number}") for number in range(20)]

    def do(view):
        if view.session_id == "a-7":
            raise RuntimeError("a surprise")
        return Text("done")

    first = bulk.plan(Text("x"), views, do, by="eve")
    bulk.begin(first)
    bulk.begin(first)
    assert first.over.wait(30)
    assert [session for session, each in first.results.items() if not each.ok] == ["a-7"]
    assert len(first.results) == 20
    empty = bulk.plan(Text("x"), [], do, by="eve")
    bulk.begin(empty)
    assert empty.over.wait(30)
    bulk.plan(Text("x"), [], do, by="eve")
    assert bulk.find(first.number, by="eve") is None
    assert (bulk.find(empty.number, by="eve"), bulk.find(empty.number, by="ann")) == (empty, None)
