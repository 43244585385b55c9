"""Idleness on the hub's pages: the rule on a flavor's card, what holds for a server now, why one was stopped."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from bs4 import BeautifulSoup

from nbgpu.core.authorize import Cause
from nbgpu.core.culling import Forecast, State
from nbgpu.core.idle_policy import IdlePolicy, IdleRule, IdleSite
from nbgpu.core.leases import ServerRef
from nbgpu.core.periods import to_seconds
from nbgpu.core.quotas import Scope, Who
from nbgpu.core.stops import Stop
from nbgpu.spawner.form import render_form
from nbgpu.spawner.i18n import get_translator
from nbgpu.spawner.idling import Idling, build_idle_line
from pages.test_templates import Handler, render, viewer
from service.idle_book import BUSY, IDLE, FakeIdleBook, make_view
from support.users import start

__all__ = ["render"]  # a fixture

EVERYONE = Who(Scope.EVERYONE)
RULES = (
    IdleRule(who=EVERYONE, changes={"idle_limit": 3600}),
    IdleRule(who=EVERYONE, gpu=True, changes={"gpu_idle_limit": 7200}),
    IdleRule(who=EVERYONE, flavor="two", changes={"idle_limit": None, "move_to": "cpu"}),
    IdleRule(who=Who(Scope.USER, "bob"), changes={"idle_limit": None, "gpu_idle_limit": None}),
)


@pytest.fixture
def idle(site):
    """The site's book of idleness, which the test fills."""
    book = FakeIdleBook()
    site.desk._idling = Idling(IdleSite(rules=RULES), book)
    return book


def lines(site, user: str, language: str = "en") -> dict[str, str]:
    """Return what each card says of idleness."""
    view = site.desk.view(frozenset(), {}, username=user)
    page = BeautifulSoup(render_form(view, get_translator(language)), "html.parser")
    found = {}
    for card in page.select("label:has(input[name=profile])"):
        text = " ".join(card.text.split())
        found[card.input["value"]] = text
    return found


def test_each_card_says_when_its_servers_are_stopped(site, idle):
    found = lines(site, "ann")
    assert "Stopped when idle for 1 h." in found["cpu"]
    assert "its GPU" not in found["cpu"]
    assert "Stopped when idle for 1 h. Stopped when its GPU is idle for 2 h." in found["one"]
    assert "With its GPU idle for 2 h it goes on without one." in found["two"]
    assert "when idle" not in found["two"]
    assert not any("idle" in text for text in lines(site, "bob").values())
    assert "空闲 1 小时 后停止。" in lines(site, "ann", "zh-CN")["cpu"]


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (IDLE, "Idle since 2026-03-10 11:10 UTC, stops at 2026-03-10 12:10 UTC if nothing changes."),
        (BUSY, "In use."),
        (replace(IDLE, state=State.UNKNOWN, forecast=None), "Whether it is in use is not known"),
        (replace(IDLE, forecast=None), "Idle."),
        (
            replace(IDLE, forecast=replace(IDLE.forecast, move_to="cpu", cause=Cause.GPU_IDLE)),
            "it goes on without one at 2026-03-10 12:10 UTC if nothing changes.",
        ),
        (None, None),
    ],
)
async def test_a_servers_row_says_what_holds(site, idle, render, verdict, said):
    user = site.users["ann"]
    await start(user, profile="cpu")
    (lease,) = site.leases.open_leases()
    idle.views[lease.session_id] = make_view(lease.session_id, verdict=verdict)
    page = await home(render, user)
    row = page.select_one(".home-server-row")
    assert (row.select_one(".nbgpu-idle") is not None) == (said is not None)
    if said is not None:
        assert said in " ".join(row.select_one(".nbgpu-idle").text.split())
        assert row.select_one(".nbgpu-idle a")["href"] == "/services/nbgpu/servers"
    await user.stop()


async def home(render, user) -> BeautifulSoup:
    """Return the home page of somebody with one server."""
    spawner = user.spawner
    return await render(
        "home.html",
        Handler(viewer(user.name)),
        user=user,
        default_server=spawner,
        allow_named_servers=False,
        url="/start",
    )


async def test_a_move_that_is_decided_is_no_stop(site, idle, render):
    user = site.users["ann"]
    await start(user, profile="one")
    (lease,) = site.leases.open_leases()
    forecast = replace(IDLE.forecast, move_to="cpu", cause=Cause.GPU_IDLE)
    stop = Stop(forecast.at, Cause.GPU_IDLE)
    idle.views[lease.session_id] = make_view(
        lease.session_id, verdict=replace(IDLE, forecast=forecast), stop=stop, flavor="one"
    )
    site.desk._leases = Stopped(site.leases, stop)
    alert = (await home(render, user)).select_one(".alert-warning")
    assert " ".join(alert.text.split()) == (
        "It will be started anew at 2026-03-10 12:10 UTC without a GPU: its GPU is idle."
    )
    site.desk._leases = site.leases
    await user.stop()


@pytest.mark.parametrize(
    ("due", "why"),
    [(-60, "It was stopped: its GPU was idle since 2026-03-10 11:10 UTC, and may be so for 2 h."), (60, "on request")],
)
async def test_after_an_end_for_idleness_it_says_why(site, idle, due, why):
    user = site.users["ann"]
    await start(user, profile="cpu")
    (lease,) = site.leases.open_leases()
    await user.stop()
    ended = site.leases.find_newest(ServerRef("ann"))
    forecast = Forecast(cause=Cause.GPU_IDLE, since=IDLE.forecast.since, limit=7200, at=0)
    stop = Stop(to_seconds(ended.released_at) + due, Cause.GPU_IDLE)
    view = make_view(lease.session_id, ended_at=ended.released_at, stop=stop, verdict=replace(IDLE, forecast=forecast))
    idle.views[lease.session_id] = view
    site.desk._leases = Stopped(site.leases, stop)
    assert why in str(site.desk.sessions("ann", [""])[""].ending.why)


class Stopped:
    """The leases, with a stop that was decided."""

    def __init__(self, leases, stop) -> None:
        self._leases, self._stop = leases, stop

    def find_newest(self, server):
        at = datetime.fromtimestamp(self._stop.at, UTC)
        return replace(self._leases.find_newest(server), stop_at=at, stop_cause=self._stop.cause)


def test_a_line_is_of_what_runs_and_has_a_rule():
    assert build_idle_line(make_view("a", policy=None)) is None
    assert build_idle_line(make_view("a", ended_at=datetime.now(UTC))) is None
    line = build_idle_line(make_view("a", policy=IdlePolicy(idle_limit=60)))
    assert (line.state, line.moves) == (State.QUIET, False)
