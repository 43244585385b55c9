"""Sessions and their idleness as a test decides them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from nbgpu.core.activity import Signal
from nbgpu.core.authorize import Cause
from nbgpu.core.culling import Extension, Finding, Forecast, State, Verdict
from nbgpu.core.errors import NotExtended
from nbgpu.core.idle_policy import IdlePolicy
from nbgpu.core.idle_view import IdleView
from nbgpu.core.leases import ServerRef
from nbgpu.core.periods import to_seconds
from nbgpu.core.prices import Price, PriceSheet
from nbgpu.core.session_list import FoundSession, Place, SessionPage, Wanted

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
SECONDS = to_seconds(NOW)
ANN = ServerRef("ann")
POLICY = IdlePolicy(idle_limit=3600)
IDLE = Verdict(
    state=State.QUIET,
    findings=(
        Finding(signal=Signal.KERNEL, state=State.QUIET, since=SECONDS - 3000),
        Finding(signal=Signal.CPU, state=State.QUIET, since=SECONDS - 3000, value=1.25, threshold=5.0),
        Finding(signal=Signal.GPU, state=State.IGNORED),
    ),
    forecast=Forecast(cause=Cause.IDLE, since=SECONDS - 3000, limit=3600, at=SECONDS + 600),
)
BUSY = Verdict(
    state=State.ACTIVE,
    findings=(Finding(signal=Signal.KERNEL, state=State.ACTIVE, since=SECONDS),),
    forecast=Forecast(cause=Cause.IDLE, since=SECONDS, limit=3600, at=SECONDS + 3600),
)


def make_view(session_id, server=ANN, **changes) -> IdleView:
    """Return a session that has run for two hours."""
    parts = {
        "flavor": "cpu",
        "image": "base",
        "devices": (),
        "groups": ("ml",),
        "started_at": NOW - timedelta(hours=2),
        "until": None,
        "time_limit": None,
        "price_per_hour": 20_000,
        "stop": None,
        "policy": POLICY,
        "verdict": IDLE,
        "extension": Extension(),
    }
    return IdleView(session_id=session_id, server=server, **(parts | changes))


class FakeSessionBook:
    """Finds views by whose they are and whether they run, in the order of their ids; a page at a time."""

    def __init__(self, idle: "FakeIdleBook") -> None:
        self.idle = idle

    def find(self, question, *, count, edge=None, backwards=False):
        ended = {Wanted.RUNNING: {False}, Wanted.ENDED: {True}, Wanted.ALL: {True, False}}[question.wanted]
        found = [
            FoundSession(Place("", 0, view.session_id), view, None)
            for view in self.idle.views.values()
            if question.username in (None, view.server.username)
            and question.servername in (None, view.server.servername)
            and (view.ended_at is not None) in ended
        ]
        found.sort(key=lambda each: each.place.session_id)
        beyond = [each for each in found if edge is None or each.place.session_id > edge.session_id]
        return SessionPage(tuple(beyond[:count]), len(found), is_more=len(beyond) > count)


class FakeIdleBook:
    """Keeps views; grants what a person may still ask for, and an administrator everything."""

    def __init__(self, *views: IdleView) -> None:
        self.views = {view.session_id: view for view in views}
        self.reports = []
        self.extensions = []

    def running(self, username):
        found = [each for each in self.views.values() if each.ended_at is None]
        return [each for each in found if username in (None, each.server.username)]

    def find(self, session_id):
        return self.views.get(session_id)

    def newest(self, server):
        return next((each for each in reversed(self.views.values()) if each.server == server), None)

    def extend_time_limit(self, session_id, seconds, *, by):
        view = self.views[session_id]
        if view.time_limit is None:
            raise NotExtended("This server has no time limit of its flavor: there is nothing to extend.")
        self.views[session_id] = replace(view, time_limit=view.time_limit + seconds)
        return self.views[session_id]

    def report(self, session_id, report):
        self.reports.append((session_id, report))

    def extend(self, session_id, seconds, *, by, as_admin):
        view = self.views[session_id]
        seconds = seconds or view.policy.extend
        if not as_admin and seconds > view.extendable:
            raise NotExtended("It can't be kept running for longer: 4 h is the most. Ask an administrator.")
        self.extensions.append((session_id, seconds, by, as_admin))
        used = Extension(until=SECONDS + seconds, used=view.extension.used + seconds, asked_at=SECONDS)
        self.views[session_id] = replace(view, extension=used)
        return self.views[session_id]


class Prices:
    """Prices as a test decides them; without any each session costs what it did at its start."""

    def __init__(self, *prices: Price) -> None:
        self._sheet = PriceSheet(prices)

    def sheet(self) -> PriceSheet:
        return self._sheet
