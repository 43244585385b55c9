"""The audit log in a browser: on wide screens names of people and actions stay whole beside long reasons."""

from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

import nbgpu.service.pages as pages
from support.chromium import FLAGS, PATH

STYLE = (Path(pages.__file__).parent / "static" / "pool.css").read_text()
CELLS = ("<time>2026-12-01 04:00:00</time>", "admin", "server.stop-failed", "user-with-a-name/server", "why " * 200)
LINES = """() => [...document.querySelectorAll("td")].map(cell => {
  const range = document.createRange(); range.selectNodeContents(cell); return range.getClientRects().length })"""


@pytest.mark.parametrize("actor", ["admin", "a" * 255])
def test_who_and_what_are_not_broken_on_a_wide_screen(actor):
    cells = "".join(f"<td>{each}</td>" for each in (CELLS[0], actor, *CELLS[2:]))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_content(
            f'<!DOCTYPE html><style>{STYLE}</style><main style="width: 1100px">'
            f'<table class="audit-table" style="width: 100%"><tr>{cells}</tr></table></main>'
        )
        _, who, what, *_ = page.evaluate(LINES)
        width = page.evaluate("document.documentElement.scrollWidth")
        browser.close()
    assert (who == 1, what, width) == (actor == "admin", 1, 1280)
