"""Messages to everybody and maintenance on a real hub, in Chromium: on the pages, in JupyterLab, and at a start."""

import pytest
from playwright.sync_api import expect

from e2e.running import until
from e2e.test_pool_page import enter, shoot
from pages.browsing import check, log_in, visit

pytestmark = [pytest.mark.docker, pytest.mark.browser]
MESSAGE = "The new image is there: <b>torch</b> 2.13."


def test_everybody_is_told_and_in_maintenance_nothing_starts(hub, browser):
    user, other = hub.add_user("told"), hub.add_user("told-later")
    hub.started(user, profile="cpu")
    with visit(browser) as admin, visit(browser) as page:
        log_in(page, hub, user, f"/user/{user}/lab")
        expect(page.locator("#nbgpu-item button")).to_contain_text("CPU", timeout=30_000)
        enter(admin, hub, "notices")
        admin.get_by_label("A message, on every page").fill(MESSAGE)
        admin.get_by_role("button", name="Send").click()
        expect(admin.locator(".notices-shown")).to_contain_text(MESSAGE)
        toast = page.locator(".Toastify__toast").filter(has_text="The new image is there")
        expect(toast).to_contain_text(MESSAGE, timeout=60_000)
        try:
            admin.get_by_label("Why? Everybody reads it.").fill("new driver")
            admin.get_by_label("What runs").select_option(label="is stopped in 4 h")
            admin.get_by_role("button", name="Begin maintenance").click()
            expect(admin.get_by_role("status").first).to_contain_text("no server is started")
            check(admin)
            shoot(admin, "notices")
            refused = hub.start_server(other, profile="cpu")
            assert (refused.status_code, "maintenance (new driver)" in refused.json()["message"]) == (503, True)
            page.goto(f"{hub.url}/hub/home")
            expect(page.get_by_label("Maintenance")).to_contain_text("Maintenance: new driver.")
            expect(page.get_by_label("Message")).to_have_text(MESSAGE)
            check(page)
            until(lambda: hub.lease(user).stop_at is not None, why="what runs is not planned to stop")
            page.reload()
            expect(page.locator("main")).to_contain_text("this machine is maintained")
        finally:
            hub.command("maintenance", "end", "--config", str(hub.settings))
        admin.get_by_role("button", name="Withdraw").click()
        expect(admin.locator(".notices-past")).to_contain_text(MESSAGE)
    until(lambda: hub.lease(user).stop_at is None, why="the stop is not called off")
    hub.started(other, profile="cpu")
    for each in (user, other):
        hub.stop_server(each)
