"""The page of usage on a real hub, in Chromium: what a server has cost, files, and nobody else's."""

import csv
import io

import pytest
from playwright.sync_api import Page, expect

from e2e.running import until
from pages.browsing import NARROW, WIDE, check, log_in, visit

pytestmark = [pytest.mark.docker, pytest.mark.browser]
USAGE = "/services/nbgpu/usage"


@pytest.fixture
def servers(hub) -> dict[str, str]:
    """Servers of two people; the session of each."""
    users = [hub.add_user(name) for name in ("una", "uwe")]
    hub.start_all([(user, "", {"profile": "mig-1g"}) for user in users])
    return {user: hub.lease(user).session_id for user in users}


def cost_of(page: Page) -> float:
    found = page.locator(".usage-days tfoot .usage-cost data")
    return float(found.get_attribute("value") or 0) if found.count() else 0.0


def sessions_of(text: str) -> set[str]:
    return {row["session"] for row in csv.DictReader(io.StringIO(text))}


def test_people_see_what_their_server_costs_and_nobody_elses(hub, servers, browser):
    with visit(browser, locale="en-GB", timezone_id="Europe/Berlin") as page:
        refused: list[str] = []
        page.on("console", lambda message: refused.append(message.text) if "Content Security" in message.text else None)
        log_in(page, hub, "una", "/hub/home")
        page.get_by_role("link", name="What I have used, and what it cost").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("My usage")

        def is_charged() -> bool:
            page.reload()
            return cost_of(page) > 0

        until(is_charged, why="its server was not charged")
        expect(page.locator(".usage-lines tbody tr")).to_have_count(1)
        page.get_by_role("link", name="Session", exact=True).click()
        expect(page.locator(f"[data-key='{servers['una']}']")).to_be_visible()
        assert servers["uwe"] not in page.content()
        with page.expect_download() as download:
            page.get_by_role("link", name="CSV").click()
        assert sessions_of(download.value.path().read_text()) == {servers["una"]}
        assert refused == []
        own = page.request.get(f"{hub.url}{USAGE}/file?by=session&user=una")
        others = [page.request.get(f"{hub.url}{USAGE}{path}?user=uwe") for path in ("", "/file")]
        assert [own.status, *(each.status for each in others)] == [200, 403, 403]
        assert sessions_of(own.text()) == {servers["una"]}
        bad = page.request.get(f"{hub.url}{USAGE}?month=2026-13")
        assert (bad.status, "month must be a date like 2026-11." in bad.text()) == (400, True)
        check(page)
        page.set_viewport_size(NARROW)
        plot = page.locator(".usage-scroll").first
        plot.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("plot => plot.scrollLeft > 0", arg=plot.element_handle())
        page.set_viewport_size(WIDE)
        page.get_by_role("button", name="中文").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("我的用量")


def test_an_administrator_sees_everybody_and_one(hub, servers, browser):
    with visit(browser) as page:
        page.goto(f"{hub.url}{USAGE}?by=user")
        page.locator("#username_input").fill("admin")
        page.locator("#password_input").fill((hub.data / "demo-admin-password").read_text().strip())
        page.locator("#login_submit").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Everybody's usage")
        for user in servers:
            expect(page.locator(f"[data-key='{user}']")).to_be_visible()
        check(page)
        page.get_by_label("User", exact=True).fill("uwe")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Usage of uwe")
        expect(page.locator(".usage-lines tbody tr")).to_have_count(1)
