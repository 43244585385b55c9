"""The panel in JupyterLab and Chromium, with the simulated driver: it goes on while a cell is busy."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from nbgpu.nvml.simulator.process_view import show_devices
from support import chromium

pytestmark = pytest.mark.browser
TOKEN = "panel"
BUSY_S = 8
BUSY = f"""import time
end = time.monotonic() + {BUSY_S}
while time.monotonic() < end: pass
print("the cell", "has ended")"""
CELLS = [
    "from nbgpu.panel import GpuPanel\nGpuPanel()",
    BUSY,
]
COUNT = """
() => {
  const value = document.querySelector("[data-reading=gpu_utilization]");
  window.written = [];
  new MutationObserver(() => written.push(value.textContent)).observe(value, { childList: true, characterData: true });
}
"""


def _notebook() -> str:
    cells = [
        {
            "cell_type": "code",
            "id": str(number),
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": source,
        }
        for number, source in enumerate(CELLS)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps({"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def lab(simulate: Any, tmp_path: Path) -> Iterator[tuple[str, Any]]:
    """A plain JupyterLab whose kernels see one simulated GPU."""
    driver = simulate("t4")
    home = tmp_path / "home"
    home.mkdir()
    (home / "panel.ipynb").write_text(_notebook())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {**os.environ, **show_devices(driver, driver.uuids), "HOME": str(home)}
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        environ[name] = str(tmp_path / name.lower())
    options = [f"--port={port}", f"--IdentityProvider.token={TOKEN}", "--no-browser", "--allow-root"]
    options += ["--LabApp.expose_app_in_browser=True", f"--ServerApp.root_dir={home}"]
    with (tmp_path / "lab.log").open("wb") as log:
        server = subprocess.Popen([sys.executable, "-m", "jupyterlab", *options], env=environ, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(transport=httpx.HTTPTransport(retries=8), trust_env=False) as client:  # half a minute
            assert client.get(f"{url}/api?token={TOKEN}", timeout=30).status_code == 200
        yield url, driver
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.PATH, args=chromium.FLAGS)
        yield browser.new_page(locale="en-US")
        browser.close()


def test_the_panel_goes_on_while_a_cell_is_busy(lab: tuple[str, Any], page: Page) -> None:
    url, driver = lab
    page.goto(f"{url}/lab/tree/panel.ipynb?token={TOKEN}")
    expect(page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(len(CELLS), timeout=30_000)
    expect(page.get_by_role("button", name="Python 3 (ipykernel) | Idle")).to_be_visible(timeout=30_000)
    page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells') && null")
    busy = page.locator("[data-reading=gpu_utilization]")
    expect(busy).to_have_text("0 %", timeout=20_000)
    page.evaluate(COUNT)
    for percent in (11, 22, 33, 44):
        driver.set(driver.uuids[0], gpu_utilization=percent)
        expect(busy).to_have_text(f"{percent} %", timeout=2500)
    assert page.get_by_text("the cell has ended").count() == 0, "all that was while the cell was busy"
    assert page.evaluate("written") == ["11 %", "22 %", "33 %", "44 %"]
    expect(page.locator(".nbgpu-panel")).to_contain_text("Tesla T4")
    light = _background(page)
    page.evaluate("jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'}) && null")
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    assert _background(page) != light
    expect(page.get_by_text("the cell has ended")).to_be_visible(timeout=30_000)


def _background(page: Page) -> str:
    return str(page.locator(".nbgpu-panel").evaluate("node => getComputedStyle(node).backgroundColor"))
