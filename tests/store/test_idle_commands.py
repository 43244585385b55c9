"""`nbgpu idle` as it is called, on a deployment's database."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nbgpu.cli.main import app
from nbgpu.core.activity import Reading, Report, Thresholds, note_reading, note_report
from nbgpu.core.culling import Look, judge, plan_idle_stop
from nbgpu.core.errors import InvalidOptions, NotExtended, UnknownSession
from nbgpu.core.leases import ServerRef
from nbgpu.core.menu import Choice
from nbgpu.core.periods import Period, to_seconds
from nbgpu.settings import load
from nbgpu.store.idle_rows import IdleEntry
from nbgpu.wiring.adapters import Adapters
from nbgpu.wiring.deployment import open_deployment

COMMITTED = Path(__file__).parents[2] / "nbgpu.toml"
RULE = """
[[flavor]]
slug = "brief"
display_name = "Brief"
kind = "cpu"
cpus = 1
memory = "1 GiB"
images = ["base"]
time_limit = "8 h"

[[idle]]
flavor = "cpu"
idle_limit = "1 h"
longest_extension = "1 h"
[[idle]]
flavor = "brief"
idle_limit = "never"
"""


@pytest.fixture
def site(tmp_path):
    """A deployment where ann's server is idle since 50 minutes, bob's is not judged, and eve's has no rule."""
    config = tmp_path / "nbgpu.toml"
    config.write_text(COMMITTED.read_text() + RULE)
    adapters = Adapters(open_deployment(tmp_path / "data"), load(config))
    for name, flavor in (("ann", "cpu"), ("bob", "cpu"), ("eve", "brief")):
        choice = Choice(adapters.menu.get(flavor), "base")
        lease = adapters.leases.acquire(ServerRef(name), choice, "sha256:1", ())
        adapters.leases.activate(lease.session_id, datetime.now(UTC) - timedelta(hours=2))
    look_at(adapters, "ann")
    yield adapters
    adapters.database.dispose()


def look_at(site, user: str, *, ago: int = 0) -> None:
    """Have one look, so many seconds ago, find that nothing was seen of somebody's server in 50 minutes."""
    (server,) = [each for each in site.idle.watched() if each.server == ServerRef(user)]
    now, tracks = to_seconds(site.clock()) - ago, {}
    for at in (now - 3000, now):
        reading = Reading(span=Period(at - 30, at), cpu_percent=1.0, network_rate=100.0)
        tracks = note_reading(note_report(tracks, Report(), at, 4000), reading, Thresholds(), 4000)
    look = Look(now=now, stale=120, has_gpu=False, zone=UTC, extension=server.extension)
    verdict = judge(tracks, server.policy, look)
    stop = plan_idle_stop(verdict, server.policy, server.decided, now=now, zone=look.zone)
    site.idle.write([IdleEntry(session_id=server.session_id, tracks=tracks, verdict=verdict, stop=stop)], now)


@pytest.fixture
def nbgpu(site, tmp_path):
    """Call the command; return its output. It must succeed."""

    def nbgpu(*arguments: str) -> str:
        place = ["--data", str(tmp_path / "data"), "--config", str(tmp_path / "nbgpu.toml")]
        result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["idle", *arguments, *place], catch_exceptions=True)
        if result.exception is not None:
            raise result.exception
        return result.output

    return nbgpu


def test_all_that_run_are_listed_with_what_is_found(nbgpu):
    ann, bob, eve = nbgpu().splitlines()[-4:-1]
    assert all(word in ann for word in ("ann", "cpu", "idle", "it is idle"))
    assert "not judged yet" in bob
    assert all(word in eve for word in ("no rule", "its limit"))
    found = json.loads(nbgpu("--json"))
    assert [(each["user"], (each["idle"] or {}).get("verdict")) for each in found] == [
        ("ann", "idle"),
        ("bob", "unknown"),
        ("eve", None),
    ]


def test_a_server_that_runs_is_explained(nbgpu):
    said = nbgpu("explain", "ann")
    for sentence in (
        "It will be stopped: ",
        "Idle:",
        "No cell is running.",
        "The CPU does next to nothing: 1 %",
        "Not counted here: its GPU memory.",
        "If nothing changes, it is stopped at ",
        "Its person may extend it by 1 h more.",
    ):
        assert sentence in said
    assert "No rule holds for it" in nbgpu("explain", "eve")
    assert "not judged yet" in nbgpu("explain", "bob")
    assert json.loads(nbgpu("explain", "ann", "--json"))["stop"]["cause"] == "idle"


def test_a_server_that_was_stopped_is_explained(nbgpu, site):
    look_at(site, "bob", ago=1800)
    for view in site.idle.running(None):
        site.leases.release(view.session_id, "stopped", site.clock())
    said = nbgpu("explain", "bob")
    assert "It was stopped: it was idle since " in said
    assert "may be so for 1 h" in said
    assert "If nothing changes" not in said
    assert "stopped on request" in nbgpu("explain", "ann"), "it was to be stopped later"
    assert nbgpu() == "No server runs.\n"


def test_an_administrator_extends_past_the_ceiling(nbgpu, site):
    assert "It is not stopped for being idle before" in nbgpu("extend", "ann", "--by", "3 h")
    assert "It was extended: not before" in nbgpu("explain", "ann")
    found = json.loads(nbgpu("extend", "ann", "--json"))
    assert (found["stop"], found["idle"]["extendable_s"]) == (None, 0)
    with pytest.raises(NotExtended, match="no time limit"):
        nbgpu("extend", "ann", "--time-limit", "--by", "1 h")
    actions = [entry.action for entry in site.audit.latest()]
    assert actions.count("idle.extend") == 2


def test_a_time_limit_is_extended(nbgpu, site):
    (before,) = site.idle.running("eve")
    assert "It may run until" in nbgpu("extend", "eve", "--time-limit", "--by", "2 h")
    (after,) = site.idle.running("eve")
    assert after.time_limit - before.time_limit == 2 * 3600
    with pytest.raises(InvalidOptions, match="Give --by"):
        nbgpu("extend", "eve", "--time-limit")


def test_mistakes_are_told(nbgpu):
    with pytest.raises(UnknownSession, match="ann/none has never run"):
        nbgpu("explain", "ann/none")
    with pytest.raises(InvalidOptions, match="--by “soon” is not"):
        nbgpu("extend", "ann", "--by", "soon")
    with pytest.raises(NotExtended, match="there is nothing to extend"):
        nbgpu("extend", "eve")
