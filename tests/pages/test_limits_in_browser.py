"""The pages of prices, budgets and quotas in a browser, with the hub's own style: by who bills, wide and narrow."""

import asyncio
import threading
from pathlib import Path

import pytest
from jupyterhub._data import DATA_FILES_PATH
from playwright.sync_api import expect, sync_playwright
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, StaticFileHandler, create_signed_value

from nbgpu.service.pages.routes import page_routes
from pages.browsing import check, visit
from service.browse import PREFIX, SECRET, Hub
from service.test_limits_pages import books, site
from support.chromium import FLAGS, PATH

__all__ = ["site"]


@pytest.fixture
def address(site):
    """The pages, beside the hub's static files."""
    socket, port = bind_unused_port()
    begun, box = threading.Event(), {}

    async def serve():
        auth = Hub(api_token="token", oauth_client_id="service-nbgpu", base_url=PREFIX)
        static = (r"/hub/static/(.*)", StaticFileHandler, {"path": str(Path(DATA_FILES_PATH) / "static")})
        routes = [static, *page_routes(PREFIX, lambda: books(site), auth=auth)]
        server = HTTPServer(Application(routes, cookie_secret=SECRET))
        server.add_sockets([socket])
        box["cookie"] = {
            "name": auth.cookie_name,
            "value": create_signed_value(SECRET, auth.cookie_name, "bill").decode(),
            "url": f"http://127.0.0.1:{port}{PREFIX}",
        }
        box["loop"], box["end"] = asyncio.get_running_loop(), asyncio.Event()
        begun.set()
        await box["end"].wait()
        server.stop()
        await server.close_all_connections()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert begun.wait(30)
    yield box["cookie"]
    box["loop"].call_soon_threadsafe(box["end"].set)
    thread.join(30)


def test_who_bills_sets_a_budget_a_file_and_a_price(address, site):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=FLAGS)
        with visit(browser) as page:
            page.context.add_cookies([address])
            page.goto(f"{address['url']}limits/edit?kind=budget")
            page.get_by_label("Name").fill("course")
            page.get_by_label("Group", exact=True).fill("ml")
            page.get_by_label("Amount").fill("100.00")
            check(page)
            page.get_by_role("button", name="Look at what it does").click()
            expect(page.get_by_text("It will be new.")).to_be_visible()
            check(page)
            page.get_by_role("button", name="Set it").click()
            expect(page.get_by_role("status")).to_contain_text("It is set")
            check(page)
            page.goto(f"{address['url']}limits/import?kind=budgets")
            page.get_by_label("Paste it").fill("name,user,amount\nann,ann,20\nbob,bob,20\n")
            page.get_by_role("button", name="Look at what it does").click()
            expect(page.get_by_text("New: 2. Changed: 0. As it is: 0.")).to_be_visible()
            check(page)
            page.get_by_role("button", name="Do all of it").click()
            expect(page.get_by_role("status")).to_contain_text("All of the file is done")
            page.goto(f"{address['url']}prices")
            page.get_by_role("textbox", name="Price per hour").fill("1.20")
            check(page)
            page.get_by_role("button", name="Look at what it does").click()
            check(page)
            page.get_by_role("button", name="Set the price").click()
            expect(page.get_by_role("status")).to_contain_text("The price is set")
        browser.close()
    assert [each.name for each in site.policies.entries()] == ["ann", "bob", "course"]
