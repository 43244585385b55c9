"""The panel in a real container and browser, with the hub's own word on the session, while a cell is busy.

`NBGPU_BUSY_SECONDS` is how long the cell is; 60 for the whole of what is promised.
"""

import itertools
import os
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from nbgpu.nvml.simulator import SimulatedDriver
from panel.notebook import WATCH, notebook
from support import chromium

pytestmark = [pytest.mark.docker, pytest.mark.browser]
BUSY_S = int(os.environ.get("NBGPU_BUSY_SECONDS", "15"))
PLACES = (".jp-Notebook", ".nbgpu-side")
LOADED = "grep -l libnvidia-ml /proc/[0-9]*/maps 2>/dev/null | wc -l"


@pytest.fixture
def context() -> Iterator[BrowserContext]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.PATH, args=chromium.FLAGS)
        context, errors = browser.new_context(locale="en-US", viewport={"width": 1300, "height": 1900}), []
        context.set_default_timeout(30_000)
        context.on("weberror", lambda error: errors.append(str(error.error)))
        yield context
        browser.close()
    assert errors == []


@pytest.fixture
def lab(hub, context) -> Page:
    """A notebook with the panel in JupyterLab, in the container of a shared T4."""
    hub.add_user("ann")
    hub.started("ann", profile="t4-shared", image="base")
    place = "/home/nbgpu/panel.ipynb"
    code = f"open({place!r}, 'w').write({notebook(busy_s=BUSY_S)!r})"
    assert hub.run_in("ann", "/opt/nbgpu/bin/python", "-c", code)[0] == 0
    page = context.new_page()
    page.goto(f"{hub.url}/hub/login")
    page.locator("input[name=username]").fill("ann")
    page.locator("input[name=password]").fill(hub.password)
    page.locator("#login_submit").click()
    page.wait_for_url("**/user/ann/**")
    return page


def _open(page: Page, url: str) -> Page:
    page.goto(url)
    expect(page.locator("#nbgpu-item button")).to_contain_text("GPU", timeout=30_000)
    page.locator("#nbgpu-item button").click()
    expect(page.locator(".nbgpu-side")).to_be_visible()
    return page


def test_the_panel_in_a_container_is_live_and_tells_of_the_session(hub, lab, context):
    driver = SimulatedDriver(hub.data / "simulator")
    (uuid,) = hub.lease("ann").allocation.device_uuids
    before = driver.read(uuid)
    page = _open(lab, f"{hub.url}/user/ann/lab/tree/panel.ipynb")
    expect(page.get_by_role("button", name="Python 3 | Idle")).to_be_visible(timeout=30_000)
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("Run All Cells")).first.click()
    expect(page.locator(".jp-Notebook [data-reading=gpu_utilization]")).to_be_visible(timeout=30_000)
    other = _open(context.new_page(), f"{hub.url}/user/ann/lab/workspaces/other")
    page.bring_to_front()
    page.evaluate(WATCH)
    for percent in range(11, 10 + BUSY_S // 3):
        driver.set(uuid, gpu_utilization=percent, memory_used=percent << 27, temperature=percent + 40)
        for place in PLACES:
            reading = page.locator(place).locator("[data-reading=gpu_utilization]")
            expect(reading).to_have_text(f"{percent} %", timeout=2500)
        expect(other.locator("[data-reading=gpu_utilization]")).to_have_text(f"{percent} %", timeout=2500)
    drawn = page.evaluate("drawn")
    assert page.get_by_text("the cell has ended").count() == 0, "all that was while the cell was busy"
    for times in drawn.values():
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert sum(gaps) / len(gaps) < 1.2, "once a second"
        assert max(gaps) < 2.5
    for place in PLACES:
        card = page.locator(place)
        expect(card.locator("[data-reading=memory_used]")).to_contain_text(f"{percent / 8:.1f} GiB of 15.0 GiB")
        expect(card.locator("[data-reading=temperature]")).to_have_text(f"{percent + 40} °C")
        expect(card).to_contain_text("Shared GPU")
        expect(card.locator("[data-session=flavor]")).to_have_text("Shared T4")
    assert hub.run_in("ann", "sh", "-c", LOADED) == (0, "1\n"), "one process of the container asks the driver"
    other.locator(".nbgpu-side").get_by_role("button", name=re.compile("Extend by")).click()
    for tab in (page, other):
        idle = tab.locator(".nbgpu-side [data-session=idle]")
        expect(idle).to_contain_text("not stopped for being idle before")
    expect(page.get_by_text("the cell has ended")).to_be_visible(timeout=(BUSY_S + 20) * 1000)
    driver.set(uuid, **{key: before.get(key) for key in ("gpu_utilization", "memory_used", "temperature")})
