"""Whether containers still have their GPUs."""

import json
import subprocess

import pytest

from nbgpu.core.flavors import FlavorKind
from nbgpu.core.gpu_health import FaultKind, Quarantine
from nbgpu.core.reconcile import ContainerFact
from nbgpu.telemetry.container_probe import COMMAND, PERIOD, RARE_PERIOD, ContainerProbe, Sight, read_answer
from nbgpu.telemetry.known_containers import KnownContainers


def said(**answer: object) -> bytes:
    return json.dumps(answer).encode()


@pytest.mark.parametrize(
    ("why", "code", "output", "sight"),
    [
        ("all well", 0, said(library=True, init=0, list=0, count=1), Sight.SEES),
        ("NVML can't be initialised any more", 0, said(library=True, init=999, list=999, count=0), Sight.LOST),
        ("initialised, but may not look", 0, said(library=True, init=0, list=999, count=0), Sight.LOST),
        ("no device is left", 0, said(library=True, init=0, list=0, count=0), Sight.LOST),
        ("the image has no driver's library", 0, said(library=False), Sight.UNKNOWN),
        ("no Python", 127, b"", Sight.UNKNOWN),
        ("too slow", 124, b"", Sight.UNKNOWN),
        ("something else was said", 0, b"hello", Sight.UNKNOWN),
        ("something else, as JSON", 0, b"[1]", Sight.UNKNOWN),
    ],
)
@pytest.mark.case(25)
def test_what_a_container_answers(why, code, output, sight):
    assert read_answer(code, output) is sight, why


@pytest.mark.case(25)
@pytest.mark.parametrize(
    ("fault", "sight"),
    [(None, Sight.SEES), ("fault.nvmlInit", Sight.LOST), ("fault.nvmlDeviceGetCount", Sight.LOST)],
)
def test_the_program_asks_the_driver_anew(simulate, library, fault, sight):
    driver = simulate("t4")
    if fault:
        driver.set_driver(**{fault: "UNKNOWN"})
    done = subprocess.run(
        COMMAND,
        env={"PATH": "/usr/bin:/bin", "NBGPU_SIMULATOR_ROOT": str(driver.root), "LD_LIBRARY_PATH": str(library.parent)},
        capture_output=True,
        check=False,
    )
    assert read_answer(done.returncode, done.stdout) is sight, done.stderr


class Probing:
    """A probe whose containers see what a test says."""

    def __init__(self, lab, **sessions: str) -> None:
        self.sights = dict.fromkeys(sessions, Sight.SEES)
        self.looked: list[str] = []
        self.well = True
        self.period = PERIOD
        self.reported: list[tuple[str, Quarantine]] = []
        facts = tuple(ContainerFact(name, session, running=True) for name, session in sessions.items())
        fleet = type("Fleet", (), {"containers": lambda self: facts})()
        self.probe = ContainerProbe(
            usage=lab.usage,
            containers=KnownContainers(fleet),
            look=self.look,
            machine_is_well=lambda: self.well,
            period=lambda: self.period,
            report=lambda session, quarantine: self.reported.append((session, quarantine)),
            clock=lab.clock,
        )

    def look(self, container: str) -> Sight:
        self.looked.append(container)
        return self.sights[container]


@pytest.mark.case(25)
def test_a_container_that_lost_its_gpus_is_told_within_a_minute_with_when_it_last_had_them(lab):
    ann, bob = lab.start("ann", gpus=2), lab.start("bob")
    probing = Probing(lab, a=ann.session_id, b=bob.session_id)
    probing.probe.tick()
    last_good = lab.clock()
    lab.wait(60)
    probing.sights["a"] = Sight.LOST
    probing.looked.clear()
    probing.probe.tick()
    assert probing.looked == ["a", "a", "b"], "asked twice before it is believed"
    assert {session for session, _ in probing.reported} == {ann.session_id}
    assert {quarantine.device_uuid for _, quarantine in probing.reported} == set(ann.allocation.device_uuids)
    assert {(each.fault.kind, each.last_good_at) for _, each in probing.reported} == {(FaultKind.CONTAINER, last_good)}


@pytest.mark.parametrize(
    ("why", "sight", "well"),
    [("it can't be asked", Sight.UNKNOWN, True), ("the machine's driver fails, too", Sight.LOST, False)],
)
def test_what_is_not_certain_is_not_told(lab, why, sight, well):
    probing = Probing(lab, a=lab.start("ann").session_id)
    probing.sights["a"], probing.well = sight, well
    probing.probe.tick()
    assert probing.reported == [], why


def test_servers_without_gpus_are_left_alone(lab):
    probing = Probing(lab, a=lab.start("ann", FlavorKind.CPU, gpus=0).session_id)
    probing.probe.tick()
    assert probing.looked == []


def test_a_session_that_has_lost_its_device_is_not_looked_into_again(lab):
    lease = lab.start("ann")
    probing = Probing(lab, a=lease.session_id)
    probing.sights["a"] = Sight.LOST
    probing.probe.tick()
    for session, quarantine in probing.reported:
        lab.watch.report_lost(session, quarantine)
    lab.look(1)
    probing.looked.clear()
    lab.wait(PERIOD)
    probing.probe.tick()
    assert probing.looked == []
    assert lab.lost_at(lease) == [lease.created_at]


@pytest.mark.parametrize(("period", "rounds"), [(PERIOD, 21), (RARE_PERIOD, 3)])
def test_where_nothing_can_take_devices_away_it_is_looked_seldom(lab, period, rounds):
    probing = Probing(lab, a=lab.start("ann").session_id)
    probing.period = period
    for _ in range(21):
        probing.probe.tick()
        lab.wait(60)
    assert len(probing.looked) == rounds
