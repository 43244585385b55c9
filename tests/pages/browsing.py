"""People in a browser: each with a language, a window and a colour scheme, and what axe says of what they see."""

import contextlib
from collections.abc import Iterator
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from e2e.running import Deployment

WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 390, "height": 844}


@contextlib.contextmanager
def visit(browser: Browser, **settings: Any) -> Iterator[Page]:
    """A page of somebody new; what its scripts throw fails the test."""
    context = browser.new_context(**settings)
    context.set_default_timeout(20_000)
    errors: list[str] = []
    try:
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
    finally:
        context.close()
    assert errors == []


def log_in(page: Page, hub: Deployment, user: str, path: str = "/hub/spawn") -> None:
    """Log in on the way to a page."""
    page.goto(f"{hub.url}{path}")
    page.locator("#username_input").fill(user)
    page.locator("#password_input").fill(hub.password)
    page.locator("#login_submit").click()
    page.wait_for_url(lambda url: "/login" not in url)


def card(page: Page, value: str, name: str = "profile") -> Any:
    """The card of a flavor or an image."""
    return page.locator(f'label.nbgpu-card:has(input[name="{name}"][value="{value}"])')


def check(page: Page, *, schemes: tuple[str, ...] = ("light", "dark")) -> None:
    """See that axe finds nothing serious and nothing sticks out, wide and narrow, light and dark."""
    page.emulate_media(reduced_motion="reduce")
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        too_wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert too_wide <= 0, f"{page.url} is {too_wide} px wider than a {size['width']} window"
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            expect(page.locator("html")).to_have_attribute("data-bs-theme", scheme)
            found = [
                each for each in Axe().run(page).response["violations"] if each["impact"] in ("serious", "critical")
            ]
            assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == [], scheme
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="light")
