"""The administrators' pages on a real hub, in Chromium: out of service and back, a stop with a reason, the log."""

import json
import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from e2e.running import until
from pages.browsing import NARROW, WIDE, check, log_in, visit

pytestmark = [pytest.mark.docker, pytest.mark.browser]


def enter(page: Page, hub, path: str) -> None:
    """Log in as the administrator on the way to a page of the service."""
    page.goto(f"{hub.url}/services/nbgpu/{path}")
    page.locator("#username_input").fill("admin")
    page.locator("#password_input").fill((hub.data / "demo-admin-password").read_text().strip())
    page.locator("#login_submit").click()
    page.wait_for_url(lambda url: "/login" not in url)


def shoot(page: Page, name: str) -> None:
    """Keep pictures for people to look at, where NBGPU_PICTURES names a folder."""
    folder = os.environ.get("NBGPU_PICTURES")
    if not folder:
        return
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            expect(page.locator("html")).to_have_attribute("data-bs-theme", scheme)
            page.screenshot(path=Path(folder) / f"{name}-{size['width']}-{scheme}.png", full_page=True)
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="light")


def test_a_gpu_goes_out_of_service_and_back_and_nobody_new_gets_it(hub, browser):
    user, other = hub.add_user("pam"), hub.add_user("pat")
    hub.started(user, profile="t4-shared")
    (uuid,) = hub.lease(user).allocation.device_uuids
    with visit(browser, locale="en-GB", timezone_id="Europe/Berlin") as page:
        refused: list[str] = []
        page.on("console", lambda message: refused.append(message.text) if "Content Security" in message.text else None)
        enter(page, hub, "pool")
        card = page.locator(f'[data-device="{uuid}"]')
        expect(card).to_contain_text("partly free")
        expect(card).to_contain_text(user)
        page.get_by_role("button", name="Manage", exact=True).click()
        expect(page.get_by_role("link", name="GPUs")).to_have_attribute("aria-current", "page")
        page.keyboard.press("Escape")
        assert refused == []  # axe's own styles are refused from here on
        shoot(page, "pool")
        card.get_by_role("link", name="Manage").click()
        check(page)
        shoot(page, "pool-form")
        page.get_by_label("Why?").fill("its fan is loud")
        page.get_by_role("button", name="Take out of service").click()
        expect(page.get_by_role("status").first).to_contain_text("leased to nobody new")
        expect(card).to_contain_text("its fan is loud")
        check(page)
        shoot(page, "pool-out")
        answer = until(lambda: refusal(hub, other), why="it is leased though it is out of service")
        assert "An administrator has taken it out of service." in answer
        assert hub.lease(user) is not None, "who runs on it goes on"
        assert hub.server(user)["ready"]
        hub.command("gpus", "uncordon", uuid, "--config", str(hub.settings))
        expect(card).to_contain_text("partly free", timeout=15_000)  # the page follows by itself
        expect(page.locator("#pool time").first).not_to_contain_text("UTC")
        page.get_by_role("button", name="中文").click()
        expect(card).to_contain_text("部分空闲")


def refusal(hub, user: str) -> str | None:
    """Ask for a start; return why it is refused, None where it was not: the server is stopped again."""
    answer = hub.start_server(user, profile="t4-shared")
    if answer.status_code >= 400:
        return str(answer.json()["message"])
    hub.wait_ready(user)
    hub.stop_server(user)
    return None


def test_a_server_is_stopped_with_a_reason_that_its_person_and_the_log_show(hub, browser):
    user = hub.add_user("pia")
    hub.started(user, profile="cpu")
    with visit(browser) as page:
        enter(page, hub, "servers")
        page.get_by_text("Stop it…").click()
        check(page)
        shoot(page, "stop")
        page.get_by_label("Why?").fill("It mines <i>coins</i>.")
        page.get_by_role("button", name="Stop the server").click()
        expect(page.get_by_role("status").first).to_contain_text(f"The hub stops {user}.")
        until(lambda: hub.lease(user) is None, why="it is not stopped")
        page.get_by_role("button", name="Manage", exact=True).click()
        page.get_by_role("link", name="Audit log").click()
        row = page.locator("tbody tr").filter(has_text="server.stop").first
        expect(row).to_contain_text("admin")
        expect(row).to_contain_text("It mines <i>coins</i>.")
        check(page)
        shoot(page, "audit")
        page.get_by_label("What", exact=True).fill("server.")
        page.get_by_role("button", name="Filter").click()
        expect(page.locator("tbody tr").first).to_contain_text("server.stop")
        with page.expect_download() as download:
            page.get_by_role("link", name="CSV").click()
        assert "It mines <i>coins</i>." in Path(download.value.path()).read_text()
    with visit(browser) as page:
        log_in(page, hub, user, "/hub/home")
        expect(page.locator("main")).to_contain_text("An administrator has stopped it: It mines <i>coins</i>.")
        page.goto(f"{hub.url}/services/nbgpu/pool")
        expect(page.locator("main")).to_contain_text("for those who run this place")
        expect(page.get_by_role("link", name="GPUs")).to_have_count(0)
    assert user in {
        each["subject"] for each in json.loads(hub.command("audit", "--json", "--config", str(hub.settings)))
    }
