"""The panel's page in Chromium, with a model in the kernel's place: what it says, also to a screen reader."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from panel.paging import browser, put, show

__all__ = ["browser", "show"]
pytestmark = pytest.mark.browser


def values(page: Page) -> dict[str, str]:
    """The readings of the first card, as they are written."""
    card = page.locator("details").first
    return {each.get_attribute("data-reading"): each.inner_text() for each in card.locator("[data-reading]").all()}


WRITTEN = {
    "gpu_utilization": "0 %",
    "memory_used": "4 MiB of 15.0 GiB",
    "temperature": "36 °C",
    "power": "10 W of 70 W",
    "sm_clock": "345 MHz",
    "memory_clock": "5001 MHz",
    "ecc_errors": "0",
    "processes": "none",
}


def test_values_are_written_and_plotted(simulate, make_sampler, clock, show):
    driver, sampler = simulate("t4"), make_sampler()
    for busy in (20, 80):
        driver.set(driver.uuids[0], gpu_utilization=busy)
        sampler.tick()
        clock.forward(1)
    page = show(sampler)
    assert values(page) == WRITTEN | {"gpu_utilization": "80 %"}
    expect(page.locator("summary").first).to_have_text("GPU 0: Tesla T4")
    expect(page.locator("details").first).to_contain_text("Simulated GPU")
    plot = page.get_by_role("img", name="GPU busy, last five minutes: now 80 %, lowest 20 %, highest 80 %")
    assert plot.locator("path").get_attribute("d") == "M298 78.8L299 21.2"
    driver.set(driver.uuids[0], gpu_utilization=100, processes="4194305:1048576")
    sampler.tick()
    put(page, sampler)
    assert values(page) == WRITTEN | {"gpu_utilization": "100 %", "processes": "PID 4194305: 1 MiB"}
    page.evaluate("leave()")
    assert page.locator("#root").inner_html() == ""
    assert page.evaluate("model.count()") == 1, "the past goes on for other views"


FAULTS = {
    "nvmlDeviceGetUtilizationRates": {"gpu_utilization": "n/a"},
    "nvmlDeviceGetMemoryInfo": {"memory_used": "n/a"},
    "nvmlDeviceGetTemperature nvmlDeviceGetTemperatureV": {"temperature": "n/a"},
    "nvmlDeviceGetPowerUsage": {"power": "n/a of 70 W"},
    "nvmlDeviceGetEnforcedPowerLimit nvmlDeviceGetPowerManagementLimit": {"power": "10 W"},
    "nvmlDeviceGetClockInfo": {"sm_clock": "n/a", "memory_clock": "n/a"},
    "nvmlDeviceGetTotalEccErrors": {"ecc_errors": "n/a"},
    "nvmlDeviceGetComputeRunningProcesses": {"processes": "n/a"},
}


def test_what_is_not_reported_reads_so(simulate, make_sampler, clock, show):
    driver, sampler = simulate("t4"), make_sampler()
    page = show(sampler)
    expect(page.get_by_role("status")).to_have_text("Waiting for the first reading…")
    for calls, expected in FAULTS.items():
        faults = {f"fault.{call}": "NOT_SUPPORTED" for call in calls.split()}
        driver.set(driver.uuids[0], **faults)
        clock.forward(1)
        sampler.tick()
        put(page, sampler)
        assert values(page) == WRITTEN | expected, calls
        driver.unset(driver.uuids[0], *faults)


def test_a_lost_gpu_says_what_to_do(simulate, make_sampler, clock, show):
    driver, sampler = simulate("t4"), make_sampler()
    sampler.tick()
    page = show(sampler)
    driver.set(driver.uuids[0], **{"fault.*": "GPU_IS_LOST"})
    clock.forward(1)
    sampler.tick()
    put(page, sampler)
    expect(page.locator("details").first).to_contain_text("Save your work, stop this server and start it again")
    assert set(values(page).values()) == {"n/a"}


def test_a_silent_driver_leaves_old_values_that_say_so(simulate, make_sampler, clock, show):
    driver, sampler = simulate("t4"), make_sampler(limit_s=0.1)
    sampler.tick()
    page = show(sampler)
    driver.set(driver.uuids[0], **{"fault.nvmlDeviceGetPowerUsage": "HANG"})
    for _ in range(4):
        clock.forward(1)
        sampler.tick()
        put(page, sampler)
    expect(page.locator("details").first).to_contain_text("the values are 4 s old")
    assert values(page) == WRITTEN
    driver.set(driver.uuids[0], **{"fault.nvmlDeviceGetPowerUsage": None})


def test_values_that_do_not_come_are_stale_after_three_intervals(simulate, make_sampler, show):
    simulate("t4")
    sampler = make_sampler()
    sampler.tick()
    page = show(sampler)
    page.clock.run_for(1000)  # it also moves by itself
    assert page.get_by_role("status").inner_text() == ""
    page.clock.run_for(3000)
    expect(page.get_by_role("status")).to_contain_text("Stale")
    assert page.evaluate("sent") == [{"kind": "awake"}], "asked once"
    put(page, sampler)
    expect(page.get_by_role("status")).to_have_text("")


@pytest.mark.parametrize(
    ("locale", "texts"),
    [
        ("en-GB", ["No GPU in this session.", "This container", "n/a"]),
        ("zh-CN", ["此会话没有 GPU。", "此容器", "无数据"]),
        ("de", ["No GPU in this session."]),
    ],
)
def test_no_gpu_is_said_in_the_readers_language(simulate, make_sampler, show, locale, texts):
    simulate("none")
    sampler = make_sampler()
    sampler.tick()
    page = show(sampler, locale=locale)
    for text in texts:
        expect(page.locator("#root")).to_contain_text(text)


def test_a_shared_slot_and_a_mig_slice_say_what_they_are(simulate, make_sampler, enter, show):
    driver = simulate("h100-mig")
    enter(driver, next(uuid for uuid in driver.uuids if uuid.startswith("MIG-")))
    sampler = make_sampler(share=2**30)
    sampler.tick()
    page = show(sampler)
    expect(page.locator("summary").first).to_have_text("MIG slice 1g.10gb 0: NVIDIA H100 80GB HBM3 MIG 1g.10gb")
    expect(page.locator("details").first).to_contain_text("of all who use it. Your part of the memory: 1.0 GiB.")


def test_a_name_is_never_markup(simulate, make_sampler, show):
    driver = simulate("t4")
    driver.set(driver.uuids[0], name="<img src=x onerror=alert(1)>")
    sampler = make_sampler()
    sampler.tick()
    page = show(sampler)
    expect(page.locator("summary").first).to_have_text("GPU 0: <img src=x onerror=alert(1)>")
    assert page.locator("#root img").count() == 0


def test_keys_fold_a_card(simulate, make_sampler, show):
    simulate("t4")
    sampler = make_sampler()
    sampler.tick()
    page = show(sampler)
    page.keyboard.press("Tab")
    expect(page.locator("summary").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("details").first).not_to_have_attribute("open", "")


def test_plots_hold_still_for_those_who_ask(simulate, make_sampler, clock, show):
    simulate("t4")
    sampler = make_sampler()
    sampler.tick()
    page = show(sampler, reduced_motion="reduce")
    path = page.locator("path").first
    before = path.get_attribute("d")
    for _ in range(5):
        clock.forward(1)
        sampler.tick()
        put(page, sampler)
    assert path.get_attribute("d") == before
    page.clock.run_for(10_000)
    put(page, sampler)
    assert path.get_attribute("d") != before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(simulate, make_sampler, show, scheme):
    driver = simulate("8xA100")
    driver.set(driver.uuids[0], **{"fault.*": "GPU_IS_LOST"})
    sampler = make_sampler(share=2**30)
    sampler.tick()
    page = show(sampler, color_scheme=scheme, viewport={"width": 390, "height": 844})
    page.clock.run_for(6000)
    found = [each for each in Axe().run(page).response["violations"] if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
