"""Every page of the service, as the bar at the top lists them, for a person and an administrator among fifty people."""

import os
import signal
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from e2e.running import until
from e2e.test_pool_page import enter, shoot
from e2e.test_service import service_pid
from e2e.walking import DAYS, PEOPLE, fill
from pages.browsing import NARROW, WIDE, log_in, visit

pytestmark = [pytest.mark.docker, pytest.mark.browser]
LAST = datetime.now(UTC).date()
FIRST = LAST - timedelta(days=DAYS + 1)
LINKS = "[...document.querySelectorAll('.navbar a[href*=\"/services/nbgpu/\"]')].map((each) => each.href)"
MONTH = f"?from={FIRST}&to={LAST}"
OWN, ALL = (
    {"usage": MONTH},
    {"usage": f"{MONTH}&by=user", "sessions": "?state=ended&sort=-cost"},
)  # what shows the month


@pytest.fixture(scope="module")
def crowd(shared_hub) -> str:
    """The month, and the name of somebody who has one."""
    fill(shared_hub.data)
    return "walker-07"


def look(page: Page, where: str) -> None:
    """See that a page fits its window and has no serious fault: wide in light, narrow in dark."""
    for size, scheme in ((WIDE, "light"), (NARROW, "dark")):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        expect(page.locator("html")).to_have_attribute("data-bs-theme", scheme)
        too_wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert too_wide <= 0, f"{where} is {too_wide} px wider than a {size['width']} window"
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in serious] == [], (where, scheme)
    page.set_viewport_size(WIDE)


def walk(page: Page, name: str, queries: Mapping[str, str]) -> set[str]:
    """Look at each page of the bar; return their names."""
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    pages = [(each, each.rpartition("/")[2]) for each in page.evaluate(LINKS)]
    for address, short in pages:
        page.goto("about:blank")
        said.clear()  # axe's own styles were refused
        answer = page.goto(address + queries.get(short, ""))
        assert (answer is not None and answer.status, said) == (200, []), address
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        look(page, short)
        shoot(page, f"{name}-{short}")
    return {short for _, short in pages}


def test_a_person_walks_through_their_pages(hub, crowd, browser):
    hub.add_user(crowd)
    hub.started(crowd, profile="cpu")
    with visit(browser, locale="en-GB", timezone_id="Europe/Berlin") as page:
        log_in(page, hub, crowd, "/services/nbgpu/servers")
        assert {"servers", "usage"} <= walk(page, "person", OWN)
        page.goto(f"{hub.url}/services/nbgpu/servers")
        expect(page.locator(".nbgpu-server dl")).to_contain_text("Cost so far")
        pid = service_pid(hub)
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        until(lambda: service_pid(hub) != pid, why="the service does not end")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.locator("#servers-news")).to_contain_text("Reconnecting")
        expect(page.locator("#servers-news")).to_have_text("", timeout=30_000)
        page.get_by_text("Stop it…").click()
        page.get_by_role("button", name="Stop the server").click()
        expect(page.get_by_role("status").first).to_contain_text(f"The hub stops {crowd}.")
        until(lambda: hub.lease(crowd) is None, why="it is not stopped")


def test_an_administrator_walks_through_all_pages_and_stops_two(hub, crowd, browser):
    users = [hub.add_user(f"walker-{number:02}") for number in (1, 2)]
    hub.start_all([(user, "", {"profile": "cpu"}) for user in users])
    with visit(browser, locale="en-GB", timezone_id="Europe/Berlin") as page:
        enter(page, hub, "sessions")
        assert {"servers", "usage", "sessions", "pool", "audit"} <= walk(page, "admin", ALL)
        page.goto(f"{hub.url}/services/nbgpu/usage{MONTH}&by=user")
        expect(page.locator("[data-waste^=walker-]")).to_have_count(PEOPLE)  # others of this hub had GPUs, too
        page.goto(f"{hub.url}/services/nbgpu/sessions?q=walker")
        page.get_by_label("Tick all on this page").check()
        expect(page.locator("#ticked")).to_have_text("2 ticked")
        page.get_by_label("Why, for a stop").fill("The room is warm.")
        page.get_by_role("button", name="Preview…").click()
        shoot(page, "admin-preview")
        page.get_by_role("button", name="Do it (servers: 2)").click()
        expect(page.get_by_role("status").first).to_contain_text("Done: 2 of 2.")
        shoot(page, "admin-results")
        until(lambda: not any(hub.lease(user) for user in users), why="they are not stopped")
