"""A person's way through the pages, in Chromium. `NBGPU_SCREENSHOTS` names a folder to keep the pictures in."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from e2e.running import until
from support import chromium

pytestmark = [pytest.mark.docker, pytest.mark.browser]
WIDTHS = {"wide": 1280, "narrow": 390}
LIST_GPUS = """
import json, pynvml
pynvml.nvmlInit()
gpus = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
migs = []
for gpu, i in [(gpu, i) for gpu in gpus for i in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu))]:
    try: migs.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i))
    except pynvml.NVMLError_NotFound: pass

print("SEEN", json.dumps([[pynvml.nvmlDeviceGetUUID(each) for each in kind] for kind in (gpus, migs)]))
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """Chromium with an empty profile."""
    profile = tmp_path_factory.mktemp("profile")
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium.PATH, args=chromium.FLAGS, headless=True
        )
        context.set_default_timeout(20_000)
        yield context
        context.close()


@pytest.fixture
def page(browser: BrowserContext) -> Iterator[Page]:
    """A page of somebody who is not logged in; what its scripts throw fails the test."""
    browser.clear_cookies()
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.close()
    assert errors == []


@pytest.fixture
def shoot(tmp_path: Path):
    """Return what takes a page's pictures, wide and narrow, light and dark, and sees that nothing sticks out."""
    folder = Path(os.environ.get("NBGPU_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)

    def take(page: Page, name: str) -> None:
        for width, pixels in WIDTHS.items():
            page.set_viewport_size({"width": pixels, "height": 900})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                expect(page.locator("html")).to_have_attribute("data-bs-theme", scheme)
                page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
            too_wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert too_wide <= 0, f"{name} is {too_wide} px wider than a {width} window"
        page.set_viewport_size({"width": 1280, "height": 900})
        page.emulate_media(color_scheme="light")

    return take


def log_in(page, hub, user):
    page.goto(f"{hub.url}/hub/login")
    page.locator("input[name=username]").fill(user)
    page.locator("input[name=password]").fill(hub.password)
    page.locator("#login_submit").click()
    expect(page.locator("#start-server")).to_be_visible()


def card(page, title):
    return page.locator("label.nbgpu-card", has_text=title)


def start(page, title):
    card(page, title).click()
    expect(card(page, title).locator("input")).to_be_checked()
    page.locator("#start-server").click()
    page.wait_for_url("**/hub/spawn-pending/**")


def list_gpus(page):
    """Open a notebook from the launcher and return what its kernel sees: GPUs and MIG instances."""
    page.locator(".jp-LauncherCard[data-category=Notebook]", has_text="Python 3").first.click()
    # Until the kernel is there the notebook is still being loaded, and takes back what is typed.
    expect(page.locator("#jp-main-statusbar")).to_contain_text("| Idle", timeout=30_000)
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    page.keyboard.insert_text(LIST_GPUS)
    expect(page.locator(".jp-Notebook .jp-CodeCell .cm-content").first).to_contain_text("SEEN")
    page.keyboard.press("Shift+Enter")
    output = page.locator(".jp-OutputArea-output", has_text="SEEN").first
    expect(output).to_be_visible(timeout=30_000)
    return json.loads(re.search(r"SEEN (.*)", output.inner_text())[1])


# The pending page may be gone within a second: it writes down what it showed as done.
NOTE_PHASES = """
new MutationObserver(() => {
  const done = [...document.querySelectorAll("#phases li.nbgpu-done")].map((phase) => phase.textContent);
  if (done.length) localStorage.setItem("phases-done", done.join("\\n"));
}).observe(document, { subtree: true, childList: true, attributes: true });
"""


def test_from_login_to_a_notebook_on_a_slice_and_back(hub, page, shoot):
    page.add_init_script(NOTE_PHASES)
    log_in(page, hub, "nora")
    expect(page.locator(".nbgpu-banner")).to_contain_text("Simulated GPUs")
    expect(card(page, "Small GPU slice")).to_contain_text("3 of 3 free")
    shoot(page, "spawn")
    start(page, "Small GPU slice")
    page.wait_for_url("**/user/nora/**", timeout=60_000)
    assert "Lease the devices" in page.evaluate("localStorage.getItem('phases-done')")
    expect(page.locator("#jp-main-dock-panel")).to_be_visible(timeout=60_000)
    gpus, migs = list_gpus(page)
    (lease,) = hub.listed_leases()
    (held,) = lease["devices"]
    assert migs == [held["device_uuid"]]
    assert len(gpus) == 1  # the slice's GPU, which a container may name but not read

    page.goto(f"{hub.url}/hub/home")
    expect(page.locator("#stop")).to_be_visible()
    shoot(page, "home-running")
    page.locator("#stop").click()
    expect(page.locator("#start")).to_contain_text("Start")
    until(lambda: not hub.leases())
    shoot(page, "home-stopped")
    page.goto(f"{hub.url}/user/nora/lab")
    expect(page.locator("main, #main, .container").first).to_be_visible()
    shoot(page, "not-running")
    page.goto(f"{hub.url}/hub/spawn")
    expect(card(page, "Small GPU slice")).to_contain_text("3 of 3 free")
    expect(card(page, "Small GPU slice").locator("input")).to_be_checked()


def test_stop_on_the_pending_page_gives_the_devices_back(hub, page, shoot):
    log_in(page, hub, "mute-nora")  # whose server never answers
    start(page, "One A100")
    expect(page.locator("#phases li.nbgpu-now")).to_have_text("Wait for the notebook server")
    shoot(page, "pending")
    page.locator("#stop-server").click()
    expect(page.locator("#pending-title")).to_have_text("The start was stopped")
    expect(page.locator("#choose-again")).to_be_visible()
    until(lambda: not hub.leases() and not hub.containers(), seconds=5)
    shoot(page, "pending-stopped")
    page.locator("#choose-again").click()
    expect(card(page, "One A100").locator("input")).to_be_checked()


def test_a_failed_start_says_why(hub, page, shoot):
    log_in(page, hub, "broken-nora")
    start(page, "Shared T4")
    expect(page.locator("#pending-title, h1").first).to_contain_text("did not start", timeout=20_000)
    expect(page.locator("main")).to_contain_text("exit code 3")
    expect(page.locator("main")).to_contain_text("broken config")
    assert hub.leases() == ()
    shoot(page, "failed")
    page.goto(f"{hub.url}/user/broken-nora/lab")
    expect(page.locator("h1")).to_be_visible()
    shoot(page, "failed-later")
