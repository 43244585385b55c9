"""The meter's tick: what runs is noted, an engine that can't be asked is no end, a step of the clock is hidden."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from nbgpu.core.errors import EngineUnavailable
from nbgpu.core.reconcile import ContainerFact
from nbgpu.telemetry.meter import Meter
from nbgpu.telemetry.uptime import Uptime, read_uptime

START = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)


class Notes:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.step = 0

    def note_tick(self, *, at, uptime, boot_id, tolerance):
        self.told.append(("tick", at, uptime, boot_id))
        return self.step

    def note_seen(self, session_ids, at):
        self.told.append(("seen", tuple(session_ids), at))

    def settle(self):
        self.told.append(("settle",))
        return ()


class FewContainers:
    """A fleet of one that runs and one that has ended, or no answer."""

    answers = True

    def containers(self):
        if not self.answers:
            raise EngineUnavailable("Docker does not answer.")
        return ContainerFact("1", "running", running=True), ContainerFact("2", "ended", running=False)

    def end(self, container_id):
        raise AssertionError("a meter ends nothing")


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def fleet():
    return FewContainers()


@pytest.fixture
def meter(notes, fleet):
    return Meter(metering=notes, fleet=fleet, clock=lambda: START, uptime=lambda: Uptime(5000, "boot"))


def test_a_tick_notes_both_clocks_then_who_runs_then_settles(meter, notes):
    meter.tick()
    assert notes.told == [("tick", START, 5000, "boot"), ("seen", ("running",), START), ("settle",)]


def test_an_engine_that_can_not_be_asked_is_told_and_nobody_counts_as_gone(meter, notes, fleet, caplog):
    fleet.answers = False
    meter.tick()
    assert [each[0] for each in notes.told] == ["tick", "settle"]
    assert "Not seen now who runs: Docker does not answer." in caplog.text


def test_a_step_of_the_clock_is_told(meter, notes, caplog):
    notes.step = -3600
    with caplog.at_level(logging.WARNING):
        meter.tick()
    assert "stepped by -3600 s" in caplog.text


def test_the_uptime_goes_on_and_names_its_boot():
    first, second = read_uptime(), read_uptime()
    assert first.boot_id == second.boot_id != ""
    assert timedelta(0) <= timedelta(milliseconds=second.milliseconds - first.milliseconds) < timedelta(seconds=5)
