"""The session on the panel's page: money, time, whether it is idle and why, and warnings, in the reader's language."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from panel.paging import browser, show
from panel.status import a_status, minutes

__all__ = ["browser", "show"]
pytestmark = pytest.mark.browser


@pytest.fixture
def sampler(simulate, make_sampler):
    simulate("t4")
    found = make_sampler()
    found.tick()
    return found


def tell(page: Page, **session: Any) -> None:
    page.evaluate(
        "session => model.put(session, '_session')", {"status": None, "notice": None, "away": False} | session
    )


def rows(page: Page) -> list[str]:
    return [each.inner_text().replace("\n", ": ") for each in page.locator(".nbgpu-session .nbgpu-row").all()]


def warnings(page: Page) -> list[str]:
    return [each.inner_text() for each in page.get_by_role("alert").locator("p").all()]


TEXTS = {
    "en-US": [
        "Flavor: Small GPU slice",
        "Price: $1.90 an hour",
        "Cost so far: $1.23",
        "Time limit: 07:00 PM (in 10 h)",
        "Budget course: $12.00 of $20.00 left",
        "Servers: 2 of 3 left",
        "GPU-hours: 49 h of 100 h left",
        "Idle check: idle; since 08:09 AM; is stopped at 09:09 AM (in 9 min) if nothing happens",
    ],
    "zh-CN": [
        "规格: Small GPU slice",
        "价格: 每小时 US$1.90",
        "目前费用: US$1.23",
        "时限: 19:00（还有 10 小时）",
        "预算 course: 剩余 US$12.00 / US$20.00",
        "服务器: 剩余 2 / 3",
        "GPU 小时: 剩余 49 小时 / 100 小时",
        "空闲检查: 空闲; 自 08:09 起; 若无活动将于 09:09 停止（还有 9 分钟）",
    ],
}
REASONS = {
    "en-US": [
        "Cells: quiet, since 08:09 AM",
        "CPU: quiet, 0.4 %, counts from 5 %",
        "Network: at work, 60 KiB/s, counts from 50 KiB/s",
        "GPU: not known, counts from 2 %",
        "Change of GPU memory: not counted",
        "What a later version says.",
    ],
    "zh-CN": [
        "单元格: 安静, 自 08:09 起",
        "CPU: 安静, 0.4 %, 从 5 % 起计入",
        "网络: 正在工作, 60 KiB/s, 从 50 KiB/s 起计入",
        "GPU: 未知, 从 2 % 起计入",
        "显存变化: 不计入",
        "What a later version says.",
    ],
}


@pytest.mark.parametrize("locale", TEXTS)
def test_the_session_is_told(show, sampler, locale):
    page = show(sampler, locale=locale)
    expect(page.locator(".nbgpu-session")).to_be_hidden()
    tell(page, status=a_status())
    assert rows(page) == TEXTS[locale]
    assert [each.inner_text() for each in page.locator(".nbgpu-session li").all()] == REASONS[locale]
    assert warnings(page) == []


@pytest.mark.parametrize(
    ("change", "row"),
    [
        ({"cost_micro": None}, "Cost so far: n/a"),
        ({"until": None}, "Time limit: none"),
        ({"currency": "beans"}, "Price: 1.90 beans an hour"),
        ({"idle": {"verdict": "active", "reasons": []}}, "Idle check: at work"),
        ({"idle": {"verdict": "unknown"}}, "Idle check: not known: it is not stopped for being idle"),
        (
            {"idle": {"verdict": "idle", "extended_until": minutes(60)}},
            "Idle check: idle; not stopped for being idle before 10:00 AM",
        ),
        (
            {"idle": {"verdict": "idle", "would_stop_at": minutes(9), "move_to": "cpu"}},
            "Idle check: idle; goes on as cpu at 09:09 AM (in 9 min) if nothing happens",
        ),
        ({"quotas": [{"kind": "a_new_one", "value": 3, "used": 0, "held": 0}]}, "a_new_one: 3 of 3 left"),
    ],
)
def test_what_is_not_known_is_not_made_up(show, sampler, change, row):
    page = show(sampler)
    tell(page, status=a_status(**change))
    assert row in rows(page)


STOP = {"at": minutes(9), "cause": "idle", "text": "The hub's own words."}
NOTICE = {"text": "Stopped for repairs.", "stop_at": minutes(9), "cause": "repairs"}
LOST = {"text": "It has lost GPU-1.", "stop_at": None, "cause": "gpu_lost"}
LOW = [{"budget": "course", "left_micro": 3_000_000, "amount_micro": 20_000_000}]
WARNINGS = [
    (
        {"status": a_status(stop=STOP)},
        "This server will be stopped at 09:09 AM (in 9 min): it is idle. Save your work.",
        "此服务器将于 09:09 停止（还有 9 分钟）：服务器空闲。请保存工作。",
    ),
    (
        {"status": a_status(stop=STOP | {"cause": "budget"})},
        "This server will be stopped at 09:09 AM (in 9 min): a budget is used up. Save your work.",
        "此服务器将于 09:09 停止（还有 9 分钟）：预算已用完。请保存工作。",
    ),
    ({"notice": NOTICE}, "Stopped for repairs.", "Stopped for repairs."),
    (
        {"notice": LOST},
        "This GPU is lost. Save your work, stop this server and start it again; if it happens again, tell your "
        "administrator.",
        "此 GPU 已丢失。请保存工作，停止此服务器后重新启动；若再次发生，请联系管理员。",
    ),
    ({"status": a_status(budgets=LOW)}, "Budget course: $3.00 left.", "预算 course：剩余 US$3.00。"),
]


@pytest.mark.parametrize(("locale", "place"), [("en-US", 1), ("zh-CN", 2)])
def test_warnings_are_announced(show, sampler, locale, place):
    page = show(sampler, locale=locale)
    for case in WARNINGS:
        tell(page, **case[0])
        assert warnings(page) == [case[place]]
    tell(page, notice={"text": "", "stop_at": None, "cause": None})
    assert warnings(page) == [], "called off"


def test_a_warning_that_stays_is_not_said_again(show, sampler):
    page = show(sampler)
    tell(page, status=a_status(stop=STOP))
    page.evaluate("window.kept = document.querySelector('[role=alert] p')")
    page.clock.run_for(60_000)
    assert "(in 8 min)" in warnings(page)[0]
    assert page.evaluate("kept === document.querySelector('[role=alert] p')")


def test_more_time_can_be_asked_for_where_the_page_has_a_server(show, sampler):
    page = show(sampler)
    tell(page, status=a_status())
    expect(page.get_by_role("button")).to_have_count(0)
    page.evaluate(
        """document.head.append(Object.assign(document.createElement("script"), {
            id: "jupyter-config-data", type: "application/json", textContent: '{"baseUrl": "/user/ann/"}' }))"""
    )
    tell(page, status=a_status())
    expect(page.get_by_role("button")).to_have_text("Extend by 60 min")
    idle = {"verdict": "idle", "extend_s": 0}
    tell(page, status=a_status(idle=idle))
    expect(page.get_by_role("button")).to_have_count(0)


def test_a_hub_that_is_away_is_said(show, sampler):
    page = show(sampler)
    tell(page, away=True)
    expect(page.locator(".nbgpu-session").get_by_role("status")).to_contain_text("The server goes on.")
    assert rows(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(show, sampler, scheme):
    page = show(sampler, color_scheme=scheme, viewport={"width": 240, "height": 844})
    tell(page, status=a_status(stop=STOP, budgets=LOW))
    found = [each for each in Axe().run(page).response["violations"] if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
