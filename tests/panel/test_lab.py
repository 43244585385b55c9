"""The panel in JupyterLab and Chromium, with the simulated driver: in a notebook and beside it, while a cell runs."""

import itertools
import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from nbgpu.nvml.simulator.process_view import show_devices
from panel.jupyter import TOKEN, HubService, jupyter
from panel.notebook import WATCH, notebook
from panel.status import a_status, minutes
from support import chromium

pytestmark = pytest.mark.browser
BUSY_S = int(os.environ.get("NBGPU_BUSY_SECONDS", "10"))  # a person's cell may take a minute, or a night
IN_CELL = ".jp-Notebook [data-reading=gpu_utilization]"
BESIDE = ".nbgpu-side [data-reading=gpu_utilization]"


@pytest.fixture
def hub() -> Iterator[HubService]:
    found = HubService(a_status(now=datetime.now(UTC)))
    yield found
    found.close()


@pytest.fixture
def lab(simulate: Any, tmp_path: Path, hub: HubService) -> Iterator[tuple[str, Any]]:
    """A plain JupyterLab whose kernels see one simulated GPU, as a server of a hub."""
    driver = simulate("t4")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "panel.ipynb").write_text(notebook(busy_s=BUSY_S))
    quiet = tmp_path / "config" / "labconfig"
    quiet.mkdir(parents=True)
    (quiet / "page_config.json").write_text(
        json.dumps({"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}})
    )
    environ = {**show_devices(driver, driver.uuids), **hub.environment()}
    with jupyter(tmp_path, environ, app="jupyterlab", options=["--LabApp.expose_app_in_browser=True"]) as url:
        yield url, driver


@pytest.fixture
def context() -> Iterator[BrowserContext]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.PATH, args=chromium.FLAGS)
        context, errors = browser.new_context(locale="en-US"), []
        context.on("weberror", lambda error: errors.append(str(error.error)))
        yield context
        browser.close()
    assert errors == []


def _open(context: BrowserContext, url: str, path: str = "/lab") -> Page:
    page = context.new_page()
    page.goto(f"{url}{path}?token={TOKEN}")
    expect(page.locator("#nbgpu-item button")).to_contain_text("GPU", timeout=30_000)
    return page


def _show_side(page: Page) -> None:
    page.locator("#nbgpu-item button").click()
    expect(page.locator(".nbgpu-side")).to_be_visible()


def test_the_panel_goes_on_while_a_cell_is_busy(lab: tuple[str, Any], context: BrowserContext) -> None:
    url, driver = lab
    page = _open(context, url, "/lab/tree/panel.ipynb")
    expect(page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(3, timeout=30_000)
    expect(page.get_by_role("button", name="Python 3 (ipykernel) | Idle")).to_be_visible(timeout=30_000)
    _show_side(page)
    page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells') && null")
    busy, beside = page.locator(IN_CELL), page.locator(BESIDE)
    expect(busy).to_have_text("0 %", timeout=20_000)
    expect(page.get_by_text("asks the driver: False")).to_be_visible()
    page.evaluate(WATCH)
    for percent in range(11, 10 + BUSY_S // 2):
        driver.set(driver.uuids[0], gpu_utilization=percent)
        expect(busy).to_have_text(f"{percent} %", timeout=2500)
        expect(beside).to_have_text(f"{percent} %", timeout=2500)
        expect(page.locator("#nbgpu-item")).to_contain_text(f"GPU {percent} %", timeout=2500)
    drawn = page.evaluate("drawn")
    assert page.get_by_text("the cell has ended").count() == 0, "all that was while the cell was busy"
    for times in drawn.values():
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert len(gaps) >= BUSY_S // 2 - 2
        assert sum(gaps) / len(gaps) < 1.2, "once a second"
        assert max(gaps) < 2.5
    expect(page.locator(".jp-Notebook .nbgpu-panel")).to_contain_text("Tesla T4")
    expect(page.locator(".jp-Notebook [data-session=cost]")).to_have_text("$1.23")
    light = _background(page)
    page.evaluate("jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'}) && null")
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    assert _background(page) != light
    expect(page.get_by_text("the cell has ended")).to_be_visible(timeout=(BUSY_S + 20) * 1000)


def _background(page: Page) -> str:
    return str(page.locator(".jp-Notebook .nbgpu-panel").evaluate("node => getComputedStyle(node).backgroundColor"))


def test_without_a_cell_there_is_the_same_in_every_tab(
    lab: tuple[str, Any], hub: HubService, context: BrowserContext
) -> None:
    url, driver = lab
    driver.set(driver.uuids[0], gpu_utilization=61, memory_used=5 * 2**30, temperature=71)
    first = _open(context, url)
    _show_side(first)
    expect(first.locator("#nbgpu-item")).to_have_text("GPU 61 % · 5.0 GiB of 15.0 GiB · $1.23")
    expect(first.locator(".nbgpu-side [data-reading=memory_used]")).to_have_text("5.0 GiB of 15.0 GiB")
    expect(first.locator(".nbgpu-side [data-reading=temperature]")).to_have_text("71 °C")
    expect(first.locator(".nbgpu-side [data-session=flavor]")).to_have_text("Small GPU slice")
    second = _open(context, url, "/lab/workspaces/other")
    _show_side(second)
    driver.set(driver.uuids[0], gpu_utilization=62)
    for page in (first, second):
        expect(page.locator(BESIDE)).to_have_text("62 %", timeout=5000)
    now = datetime.now(UTC)
    hub.status = a_status(now=now, stop={"at": minutes(9, now=now), "cause": "idle", "text": "…"})
    for page in (first, second):
        expect(page.locator("#nbgpu-item")).to_have_text(re.compile(r"⚠ [89] min$"), timeout=5000)
        expect(page.get_by_role("alert").filter(has_text="will be stopped").first).to_be_visible()
    first.locator(".Toastify").get_by_role("button", name="Extend by 60 min").click()
    for page in (first, second):
        expect(page.locator("#nbgpu-item")).not_to_contain_text("⚠")
        expect(page.locator(".Toastify").get_by_text("will be stopped")).to_have_count(0)
    assert hub.extended == 1
    first.locator(".nbgpu-side").get_by_role("button", name="Extend by 60 min").click()
    hub.until(lambda _: hub.extended == 2)
