"""The pages in Chromium, against one real hub: what is live, what keys do, languages, and axe."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from e2e.running import Deployment, deployed
from pages.browsing import NARROW, card, check, log_in, visit
from support import chromium

pytestmark = [pytest.mark.docker, pytest.mark.browser]
ROOT = Path(__file__).parents[2]
BREAK = """
def break_some(spawner):
    if spawner.user.name.startswith("broken"):
        spawner.cmd = ["sh", "-c", "echo broken config; sleep 2; exit 3"]
    if spawner.user.name.startswith("mute"):
        spawner.cmd = ["sleep", "1000"]

c.GPUDockerSpawner.pre_spawn_hook = break_some
"""
REFRESH = 12_000  # milliseconds, more than the page waits


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The hub of this file: the committed settings, and users whose servers break."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "nbgpu.toml").write_text((ROOT / "nbgpu.toml").read_text())
    (folder / "config.d").mkdir()
    (folder / "config.d" / "break.py").write_text(BREAK)
    with deployed(tmp_path_factory.mktemp("hub") / "data", folder / "nbgpu.toml") as deployment:
        yield deployment


@pytest.fixture
def hub(shared_hub: Deployment) -> Iterator[Deployment]:
    """The hub, left without servers."""
    yield shared_hub
    shared_hub.stop_all()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.PATH, args=chromium.FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of an English reader."""
    with visit(browser, locale="en-US") as page:
        yield page


def test_what_is_free_follows_the_hub_without_a_reload(hub, page):
    winner = hub.add_user("winner")
    page.clock.install()
    log_in(page, hub, "watcher")
    page.evaluate("window.loadedOnce = true")
    card(page, "a100").click()
    radio = card(page, "a100").locator("input")
    hub.started(winner, profile="a100x2")
    page.clock.run_for(REFRESH)
    expect(card(page, "a100")).to_contain_text("All are in use.")
    expect(card(page, "a100")).to_contain_text("One is expected to be free at")
    expect(card(page, "a100x2").locator("input")).to_be_disabled()
    expect(page.locator("#menu-news")).to_contain_text("One A100 is not free any more. Choose another one.")
    expect(radio).to_be_checked()
    expect(radio).to_be_focused()
    expect(page.locator("#start-server")).to_have_attribute("aria-disabled", "true")
    page.locator("#start-server").press("Enter")
    expect(page).to_have_url(f"{hub.url}/hub/spawn")

    hub.stop_server(winner)
    page.clock.run_for(REFRESH)
    expect(card(page, "a100")).to_contain_text("2 of 2 free")
    expect(page.locator("#menu-news")).to_contain_text("One A100 is free now.")
    expect(card(page, "a100x2").locator("input")).to_be_enabled()
    expect(page.locator("#start-server")).not_to_have_attribute("aria-disabled", "true")
    assert page.evaluate("window.loadedOnce"), "the page was not loaded again"

    page.route("**/hub/spawn", lambda route: route.abort())
    page.clock.run_for(REFRESH)
    expect(page.locator("#menu-freshness")).to_contain_text("Not up to date")


def test_a_link_preselects_also_through_the_login_and_starts_nothing(hub, page):
    log_in(page, hub, "linked", "/hub/spawn#profile=mig-2g&image=base")
    expect(card(page, "mig-2g").locator("input")).to_be_checked()
    page.evaluate("location.hash = '#profile=t4-shared'")
    expect(card(page, "t4-shared").locator("input")).to_be_checked()
    page.evaluate("location.hash = '#profile=<img src=x>'")
    expect(page.locator("#menu-news")).to_contain_text("not on your menu")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#copy-link").click()
    expect(page.locator("#menu-news")).to_have_text("The link is copied.")
    link = page.evaluate("navigator.clipboard.readText()")
    image = page.locator("input[name=image]:checked").get_attribute("value")
    assert link == f"{hub.url}/hub/spawn#profile=t4-shared&image={image}"
    assert hub.leases() == ()


@pytest.mark.parametrize("link", ["#profile=mig-2g&image=base", "?opt-profile=mig-2g&opt-image=base"])
def test_a_link_says_so_where_the_server_runs_already(hub, page, link):
    user = hub.add_user(f"runs-{len(link)}")
    hub.started(user, profile="cpu")
    log_in(page, hub, user, f"/hub/spawn{link}")
    expect(page.locator("#running-title")).to_have_text("Your server runs already")
    expect(page.locator("#runs-already")).to_contain_text("Nothing was started or changed")
    check(page, schemes=("light",))
    assert hub.lease(user).flavor == "cpu"
    page.goto(f"{hub.url}/hub/spawn")
    page.wait_for_url(f"**/user/{user}/**")


def test_keys_are_enough_to_start_and_to_stop(hub, page):
    log_in(page, hub, "mute-keys")
    for _ in range(15):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "profile":
            break
    page.keyboard.press("ArrowDown")
    expect(card(page, "mig-1g").locator("input")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/spawn-pending/**")
    expect(page.locator("#phases [aria-current=step]")).to_have_text("Wait for the notebook server")
    check(page)
    page.locator("#stop-server").focus()
    page.keyboard.press("Space")
    expect(page.locator("#pending-title")).to_have_text("The start was stopped")
    expect(page.locator("#choose-again")).to_be_focused()
    check(page, schemes=("dark",))


def test_the_browsers_language_is_spoken_and_the_switch_is_remembered(hub, browser):
    with visit(browser, locale="zh-CN", viewport=NARROW) as page:
        log_in(page, hub, "li")
        expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
        expect(page.locator("h1")).to_have_text("启动服务器")
        expect(card(page, "a100")).to_contain_text("空闲 2 / 共 2")
        check(page)
        card(page, "a100").click()
        page.get_by_role("button", name="English").click()
        expect(page.locator("h1")).to_have_text("Start a server")
        expect(page.locator("html")).to_have_attribute("lang", "en")
        page.goto(f"{hub.url}/hub/home")
        expect(page.locator("h1")).to_have_text("My servers")
        check(page, schemes=("light",))
        page.get_by_role("button", name="中文").click()
        expect(page.locator("h1")).to_have_text("我的服务器")


def test_a_refusal_is_in_the_readers_language(hub, browser):
    with visit(browser, locale="zh-CN") as page:
        log_in(page, hub, "wang")
        card(page, "a100x2").click()
        hub.started(hub.add_user("faster"), profile="a100")
        page.locator("#start-server").click()
        expect(page.locator("[role=alert]").first).to_contain_text("现在无法启动“Two A100 with NVLink”：已全部占用。")
        check(page, schemes=("light",))


def test_a_failed_start_says_why_on_both_pages(hub, browser):
    with visit(browser, locale="zh-CN") as page:
        log_in(page, hub, "broken-zhao")
        card(page, "t4-shared").click()
        page.locator("#start-server").click()
        expect(page.locator("#pending-title")).to_have_text("服务器未能启动", timeout=30_000)
        expect(page.locator("#failure")).to_contain_text("退出码 3")
        expect(page.locator("#failure")).to_contain_text("broken config")
        expect(page.locator("#progress-details")).to_have_attribute("open", "")
        check(page)
        page.goto(f"{hub.url}/user/broken-zhao/lab")
        expect(page.locator("#failure")).to_contain_text("退出码 3")
        check(page)
        page.get_by_role("button", name="再次启动").click()
        page.wait_for_url("**/spawn-pending/**")
        expect(page.locator("#failure")).to_contain_text("退出码 3", timeout=30_000)


def test_home_shows_what_runs_and_a_stopped_server_says_why(hub, page):
    log_in(page, hub, "owner", "/hub/home")
    hub.started("owner", profile="mig-1g")
    page.reload()
    row = page.locator('[data-server-name=""]')
    expect(row).to_contain_text("1g.10gb")
    expect(row).to_contain_text("0.45 USD per hour")
    check(page, schemes=("dark",))
    page.locator("#stop").click()
    expect(page.locator("#home-news")).to_have_text("My server is stopped.")
    expect(page.locator("#start")).to_be_focused()
    page.goto(f"{hub.url}/user/owner/lab")
    expect(page.locator("#last-end")).to_contain_text("It was stopped on request")
    expect(page.locator("#last-end")).to_contain_text("Small GPU slice")
    check(page)
    page.locator("#start-again").click()
    page.wait_for_url("**/user/owner/**", timeout=60_000)
    hub.wait_ready("owner")
    assert hub.lease("owner").flavor == "mig-1g"


def test_a_named_server_is_named_chosen_and_deleted(hub, page):
    log_in(page, hub, "mute-namer", "/hub/home")
    page.locator("#new-server-name").fill("Train ü 1")
    page.locator("#new-server-name").press("Enter")
    page.wait_for_url("**/hub/spawn/mute-namer/**")
    name = page.url.split("/")[-1].split("?")[0]
    card(page, "cpu").click()
    page.locator("#start-server").click()
    expect(page.locator("#pending-title")).to_contain_text(name)
    page.locator("#stop-server").click()
    expect(page.locator("#pending-title")).to_have_text("The start was stopped")
    page.locator("#go-home").click()
    row = page.locator(f'[data-server-name="{name}"]')
    expect(row.locator("h2")).to_have_text("Train ü 1")
    page.once("dialog", lambda dialog: dialog.accept())
    row.locator(".delete-server").click()
    expect(row).to_have_count(0)
    expect(page.locator("#home-news")).to_have_text("Train ü 1 is deleted.")


def test_errors_and_the_login_are_readable(hub, page):
    page.goto(f"{hub.url}/hub/login")
    check(page)
    page.goto(f"{hub.url}/hub/nowhere")
    expect(page.locator("h1")).to_have_text("There is no such page")
    check(page, schemes=("dark",))
