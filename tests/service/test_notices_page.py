"""The page of messages to everybody and of maintenance, over a real database."""

import re
from datetime import timedelta

import pytest

from nbgpu.core.errors import UnderMaintenance
from nbgpu.core.leases import ServerRef
from nbgpu.service.pages.base import NothingPage
from nbgpu.service.pages.routes import page_routes
from nbgpu.store.board import SqlBoard
from nbgpu.store.broadcasts import SqlBroadcasts
from nbgpu.store.maintenance import SqlMaintenance
from service.browse import EVIL
from service.idle_book import FakeIdleBook, make_view
from service.pool_site import NOW, PoolSite, browsing, make_devices
from service.test_pages import parse


@pytest.fixture
def site(tmp_path):
    found = PoolSite(tmp_path, make_devices(1, 0))
    found.broadcasts = SqlBroadcasts(found.engine, lambda: NOW)
    found.maintenance = SqlMaintenance(found.engine, lambda: NOW)
    yield found
    found.engine.dispose()


def books(site):
    views = [make_view("s-1", ServerRef("ann")), make_view("s-2", ServerRef("bob"))]
    return site.books(
        idle=FakeIdleBook(*views),
        board=SqlBoard(site.engine, lambda: NOW),
        broadcasts=site.broadcasts,
        maintenance=site.maintenance,
    )


async def send(client, path: str, **fields: str):
    """Send a form of the page, with its token against forgery."""
    page = parse(await client.get("notices"))
    token = page.select_one("input[name=_xsrf]")["value"]
    seen = page.select_one("input[name=seen]")["value"]
    return await client.post(f"notices/{path}", data={"_xsrf": token, "seen": seen} | fields, follow_redirects=True)


def banners(page) -> list[str]:
    return [" ".join(each.text.split()) for each in parse(page).select("aside.nbgpu-banner")]


FORMS = {
    "send": {"text": "x", "span": "3600"},
    "withdraw": {"number": "1"},
    "maintenance": {"reason": "x", "stop": ""},
    "end": {},
}


@pytest.mark.parametrize("name", ["ann", "rita", "bill"])
async def test_who_operates_nothing_tells_nobody_anything(site, name):
    async with browsing(books(site), name) as client:
        assert (await client.get("notices")).status_code == 403
        await client.get("servers")
        data = {"_xsrf": client.cookies["_xsrf"]}
        answers = [await client.post(f"notices/{path}", data=data | fields) for path, fields in FORMS.items()]
    assert [each.status_code for each in answers] == [403] * 4
    assert (site.broadcasts.latest(), site.maintenance.current(), site.audit.latest()) == ((), None, ())


@pytest.mark.parametrize("path", FORMS)
async def test_a_form_of_somebody_elses_does_nothing(site, path):
    headers = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "cross-site"}
    async with browsing(books(site), "root", **headers) as client:
        answer = await client.post(f"notices/{path}", data=FORMS[path])
    assert answer.status_code == 403
    assert (site.broadcasts.latest(), site.maintenance.current()) == ((), None)


async def test_everybody_reads_a_message_until_it_is_withdrawn(site):
    async with browsing(books(site), "eve") as client:
        page = await send(client, "send", text=EVIL, span="14400")
        assert "The message is sent" in parse(page).select_one("[role=status]").text
        assert EVIL in parse(page).select_one(".notices-shown").text
    (message,) = site.broadcasts.current()
    assert (message.text, message.author, message.until - NOW) == (EVIL, "eve", timedelta(hours=4))
    async with browsing(books(site), "ann") as client:
        assert banners(await client.get("servers")) == [EVIL]
    async with browsing(books(site), "eve") as client:
        page = await send(client, "withdraw", number=str(message.number))
        assert parse(page).select_one(".notices-shown") is None
        assert EVIL in parse(page).select_one(".notices-past").text
        again = await send(client, "withdraw", number=str(message.number))
        assert (again.status_code, "not shown any more" in again.text) == (404, True)
        assert banners(await client.get("servers")) == []


async def test_maintenance_is_told_on_every_page_and_ends(site):
    async with browsing(books(site), "eve") as client:
        assert "Servers that run now: 2." in (await client.get("notices")).text
        page = await send(client, "maintenance", reason="new driver", stop="3600")
        assert "no server is started from now on" in parse(page).select_one("[role=status]").text
    assert site.maintenance.current().stop_at == NOW + timedelta(hours=1)
    with pytest.raises(UnderMaintenance, match="new driver"):
        site.lease("ann")
    async with browsing(books(site), "ann") as client:
        (banner,) = banners(await client.get("servers"))
    assert banner.startswith("Maintenance: new driver. No servers are started now. Those that run are stopped at")
    async with browsing(books(site), "eve") as client:
        await send(client, "maintenance", reason="new driver", stop="keep")
        assert site.maintenance.current().stop_at == NOW + timedelta(hours=1)
        await send(client, "maintenance", reason="new driver", stop="")
        assert site.maintenance.current().stop_at is None
        await send(client, "end")
        assert banners(await client.get("servers")) == []
    assert site.lease("ann").server == ServerRef("ann")
    actions = [each.action for each in reversed(site.audit.latest())]
    assert actions == [*["maintenance.begin"] * 3, "maintenance.end"]


@pytest.mark.parametrize(
    ("path", "fields", "status", "words"),
    [
        ("send", {"text": " ", "span": "3600"}, 400, "Write what everybody is to read"),
        ("send", {"text": "x" * 501, "span": "3600"}, 400, "has 501 characters"),
        ("send", {"text": "kept", "span": "1"}, 400, "the form is old"),
        ("withdraw", {"number": "1e9"}, 404, "not shown any more"),
        ("maintenance", {"reason": "", "stop": ""}, 400, "Say why"),
        ("maintenance", {"reason": "kept", "stop": "60"}, 400, "the form is old"),
    ],
)
async def test_what_makes_no_sense_is_said_and_what_was_typed_stays(site, path, fields, status, words):
    async with browsing(books(site), "root") as client:
        page = await send(client, path, **fields)
    assert (page.status_code, words in parse(page).select_one("[role=alert]").text) == (status, True)
    if "kept" in fields.values():
        kept = {each["name"]: each.get("value") or each.text for each in parse(page).select("#text, #reason")}
        assert "kept" in kept.values()
    assert (site.broadcasts.latest(), site.maintenance.current()) == ((), None)


@pytest.mark.parametrize(("path", "fields"), [("maintenance", {"reason": "mine", "stop": "3600"}), ("end", {})])
async def test_what_somebody_else_changed_meanwhile_is_shown_and_not_undone(site, path, fields):
    site.maintenance.begin("first", None, by="eve")
    async with browsing(books(site), "root") as client:
        old = parse(await client.get("notices")).select_one("input[name=seen]")["value"]
        theirs = site.maintenance.begin("theirs", None, by="eve")
        answer = await send(client, path, seen=old, **fields)
        assert (answer.status_code, "Somebody has changed" in parse(answer).select_one("[role=alert]").text) == (
            409,
            True,
        )
        assert ("theirs" in answer.text, site.maintenance.current()) == (True, theirs)
        if fields:
            assert parse(answer).select_one("#reason")["value"] == "mine"
            assert parse(answer).select_one("#stop option[selected]")["value"] == "3600"
        await send(client, path, **fields)  # as it is now shown
    assert site.maintenance.current() != theirs


@pytest.mark.parametrize("path", ["prices/", "limits/budgets", "nope", "static"])
async def test_what_is_no_page_is_said_in_a_page(site, path):
    async with browsing(books(site), "ann") as client:
        answer = await client.get(path)
        assert (answer.status_code, "There is no such page" in parse(answer).select_one("[role=alert]").text) == (
            404,
            True,
        )


@pytest.mark.parametrize("path", ["api/v1/openapi.json", "api/nope", "health", "metrics"])
def test_pages_hide_nothing_that_is_none(path):
    (rule,) = [each[0] for each in page_routes("/x/", lambda: None, auth=object()) if each[1] is NothingPage]
    assert re.fullmatch(rule, f"/x/{path}") is None
    assert re.fullmatch(rule, "/x/apiary")
