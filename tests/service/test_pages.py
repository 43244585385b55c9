"""The page of running servers, with JupyterHub's own login and tokens against forgery around it."""

import re
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest
from bs4 import BeautifulSoup
from tornado.web import create_signed_value

from nbgpu.core.authorize import Cause
from nbgpu.core.culling import Extension
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.idle_policy import IdlePolicy
from nbgpu.core.leases import ServerRef
from nbgpu.core.session_status import plain_session
from nbgpu.core.stops import Stop
from nbgpu.service.books import Books
from nbgpu.service.pages.rows import MOST, Filter, build_row, select
from service.browse import EVIL, PREFIX, browse
from service.idle_book import BUSY, IDLE, NOW, SECONDS, FakeIdleBook, Prices, make_view
from support.site import make_flavor

CPU = make_flavor("cpu", FlavorKind.CPU, display_name=EVIL)


@pytest.fixture
def idle():
    """Two servers of ann's, one of bob's, one whose name is markup, one without a rule."""
    return FakeIdleBook(
        make_view("a-1"),
        make_view("a-2", ServerRef("ann", "training"), verdict=BUSY, flavor="gone"),
        make_view("b-1", ServerRef("bob"), stop=Stop(SECONDS + 300, Cause.IDLE)),
        make_view("x-1", ServerRef(EVIL, EVIL), verdict=None),
        make_view("n-1", ServerRef("zoe"), policy=None, verdict=None),
    )


@asynccontextmanager
async def browsing(idle, name=None, *, books=True, **headers):
    """Serve the pages; give a browser in which somebody has logged in."""
    found = Books(
        statements=None,
        limits=SimpleNamespace(costs=lambda ids: dict.fromkeys(ids, 1_250_000)),
        prices=Prices(),
        clock=lambda: NOW,
        timezone="UTC",
        account_id="nbgpu",
        flavors={"cpu": CPU},
        idle=idle,
        is_simulated=True,
    )
    async with browse(lambda: found if books else None, name, **headers) as client:
        yield client


def parse(answer) -> BeautifulSoup:
    return BeautifulSoup(answer.text, "html.parser")


def titles(answer) -> list[str]:
    return [each.text.strip() for each in parse(answer).select(".nbgpu-server h2")]


async def extend(client, session_id: str, **changes: str) -> httpx.Response:
    """Press the button of a session, or send its form with something else in it."""
    form = parse(await client.get("servers")).select_one("form[method=post]")
    fields = {each["name"]: each["value"] for each in form.select("input")}
    return await client.post("servers/extend", data=fields | {"session_id": session_id} | changes)


async def test_who_has_not_logged_in_goes_to_the_hub(idle):
    async with browsing(idle) as client:
        page = await client.get("servers?q=a")
        background = await client.get("servers", headers={"Sec-Fetch-Mode": "cors"})
        form = await client.post("servers/extend", data={"session_id": "a-1"})
    assert page.status_code == 302
    assert page.headers["location"].startswith("/hub/api/oauth2/authorize?client_id=service-nbgpu&")
    assert (background.status_code, form.status_code) == (403, 403)
    assert idle.extensions == []


async def test_a_cookie_that_is_not_ours_is_nobodys(idle):
    async with browsing(idle) as client:
        client.cookies.set("service-nbgpu", create_signed_value("other", "service-nbgpu", "root").decode())
        assert (await client.get("servers")).status_code == 302


async def test_people_see_their_own_servers_and_why_they_run(idle):
    async with browsing(idle, "ann") as client:
        answer = await client.get("servers")
    page = parse(answer)
    assert titles(answer) == ["My server", "training"]
    assert page.select_one("[role=search]") is None
    first, second = page.select(".nbgpu-server")
    assert [first.select_one(".nbgpu-badge").text, second.select_one(".nbgpu-badge").text] == ["idle", "in use"]
    assert first.select_one("dd").text == EVIL
    assert "if nothing changes" in first.text
    assert "No cell is running." in first.select_one("details").text
    assert first.select_one("button").text == "Extend by 1 h"
    assert "4 h in all can still be had" in first.text
    assert page.select_one("a[href='/hub/home']")
    assert page.select_one("a[href='/hub/admin']") is None
    assert "Simulated GPUs" in page.select_one("aside").text


@pytest.mark.parametrize("name", ["root", "eve"])
async def test_administrators_and_operators_see_all_and_find_some(idle, name):
    async with browsing(idle, name) as client:
        found = {
            query: titles(await client.get(f"servers?{query}")) for query in ("", "q=ANN/", "state=none", "q=no+such")
        }
        admin = parse(await client.get("servers")).select_one("a[href='/hub/admin']")
    assert found == {
        "": ["ann", "ann/training", "bob", f"{EVIL}/{EVIL}", "zoe"],
        "q=ANN/": ["ann", "ann/training"],
        "state=none": ["zoe"],
        "q=no+such": [],
    }
    assert (admin is not None) == (name == "root")


async def test_what_is_decided_is_told_and_what_has_no_rule_can_not_be_extended(idle):
    async with browsing(idle, "root") as client:
        page = parse(await client.get("servers"))
    rows = {row["data-session"]: row for row in page.select(".nbgpu-server")}
    assert "It will be stopped at" in rows["b-1"].select_one(".alert").text
    assert "it is idle" in rows["b-1"].select_one(".alert").text
    assert rows["n-1"].select_one("form[action$=extend]") is None
    assert "not stopped for being idle" in rows["n-1"].text
    assert "not judged yet" in rows["x-1"].text
    assert rows["x-1"].find("i") is None


async def test_a_move_that_is_decided_is_no_stop(idle):
    forecast = replace(IDLE.forecast, move_to="cpu", cause=Cause.GPU_IDLE)
    view = make_view("a-1", verdict=replace(IDLE, forecast=forecast), stop=Stop(SECONDS + 300, Cause.GPU_IDLE))
    idle.views = {"a-1": view}
    async with browsing(idle, "ann") as client:
        alert = parse(await client.get("servers")).select_one(".alert")
    assert "It will be started anew at" in alert.text
    plain = plain_session(view, now=NOW, zone=NOW.tzinfo, flavor=CPU, currency="USD", cost=None)
    assert "without a GPU, as “cpu”" in plain["stop"]["text"]


async def test_one_click_keeps_a_server_and_a_reload_does_nothing(idle):
    async with browsing(idle, "ann") as client:
        answer = await extend(client, "a-1")
        assert (answer.status_code, answer.headers["location"]) == (303, "/services/nbgpu/servers?extended=a-1")
        page = parse(await client.get(answer.headers["location"].removeprefix(PREFIX)))
        assert (await client.get("servers/extend")).status_code == 302
    assert idle.extensions == [("a-1", 3600, "ann", False)]
    assert "My server is not stopped for being idle before" in page.select_one("[role=status]").text


async def test_the_ceiling_is_told_on_the_page(idle):
    used = Extension(until=SECONDS + 60, used=4 * 3600, asked_at=SECONDS)
    idle.views["a-1"] = replace(idle.views["a-1"], extension=used)
    async with browsing(idle, "ann") as client:
        answer = await extend(client, "a-1")
        row = parse(await client.get("servers")).select_one("[data-session=a-1]")
    assert answer.status_code == 409
    assert "Ask an administrator" in parse(answer).select_one("[role=alert]").text
    assert "can't be extended further" in row.text
    async with browsing(idle, "root") as client:
        assert (await extend(client, "a-1")).status_code == 303


@pytest.mark.parametrize(
    ("session_id", "changes", "status", "message"),
    [
        ("b-1", {}, 403, "somebody else's"),
        ("never", {}, 404, "does not run any more"),
        ("a-1", {"_xsrf": "forged"}, 403, "Reload the page"),
        ("a-1", {"_xsrf": ""}, 403, "Reload the page"),
    ],
)
async def test_a_form_that_may_not_be_sent_changes_nothing(idle, session_id, changes, status, message):
    async with browsing(idle, "ann") as client:
        answer = await extend(client, session_id, **changes)
    assert (answer.status_code, idle.extensions) == (status, [])
    assert message in parse(answer).select_one("[role=alert]").text


async def test_an_administrators_narrow_token_is_no_administrators(idle):
    """A token in a header has what its scopes say, whoever made it."""
    async with browsing(idle, Authorization="token root") as client:
        answer = await client.get("servers")
    assert titles(answer) == []


async def test_who_may_not_use_the_service_is_told(idle):
    async with browsing(idle, "stranger") as client:
        answer = await client.get("servers")
    assert answer.status_code == 403
    assert "for people who may use" in parse(answer).select_one("[role=alert]").text


async def test_while_the_service_begins_the_page_says_so(idle):
    async with browsing(idle, "ann", books=False) as client:
        answer = await client.get("servers")
    assert answer.status_code == 503
    assert "The service is starting" in parse(answer).select_one("[role=alert]").text


async def test_pages_run_nothing_inline_and_speak_the_readers_language(idle):
    async with browsing(idle, "ann", **{"Accept-Language": "zh"}) as client:
        answer = await client.get("servers")
        files = [await client.get(f"static/{name}") for name in ("nbgpu.css", "pages.css", "page.js", "servers.js")]
        outside = [await client.get(f"static/{name}") for name in ("home.html", "../base.py", "%2e%2e/base.py")]
    policy, page = answer.headers["content-security-policy"], parse(answer)
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert [each for each in page.select("script") if not each.get("src")] == page.select("style") == []
    assert not re.search(r"\s(on\w+|style)=", answer.text)
    assert (page.html["lang"], page.h1.text) == ("zh-CN", "我正在运行的服务器")
    assert [each.status_code for each in files] == [200] * 4
    assert {each.status_code for each in outside} <= {403, 404}


def test_of_very_many_a_page_is_shown():
    views = [make_view(str(number), ServerRef(f"u{number}")) for number in range(MOST + 5)]
    rows = [build_row(view, None, NOW.tzinfo, viewer="root", operates=True) for view in views]
    shown, found = select(rows, Filter(state="quiet"))
    assert (len(shown), found) == (MOST, MOST + 5)
    assert select(rows, Filter(text=f"U{MOST + 1}"))[1] == 1


def test_where_one_click_gives_nothing_there_is_no_button():
    view = make_view("a", policy=IdlePolicy(idle_limit=3600, extend=0))
    assert build_row(view, CPU, NOW.tzinfo, viewer="ann", operates=False).extend is None
