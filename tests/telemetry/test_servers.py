"""CPU, RAM and network of servers: control groups of both versions, processes, else the engine."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from nbgpu.core.errors import EngineUnavailable
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.reconcile import ContainerFact
from nbgpu.core.usage import SERVER, ServerReading
from nbgpu.telemetry.cgroups import CgroupMeters, find_groups, read_groups
from nbgpu.telemetry.known_containers import ASK_AT_MOST_EVERY, KnownContainers
from nbgpu.telemetry.network import read_network
from nbgpu.telemetry.owners import ProcessOwners, container_of, variable_of
from nbgpu.telemetry.pace import Pace
from nbgpu.telemetry.process_meters import ProcessMeters
from nbgpu.telemetry.servers import LONGEST, ServerSampler
from nbgpu.wiring.sampling import read_stats

CONTAINER = "0123456789abcdef" * 4
MIB = 2**20
V1 = f"""12:memory:/docker/{CONTAINER}
5:cpu,cpuacct:/docker/{CONTAINER}
1:name=systemd:/docker/{CONTAINER}
0::/docker/{CONTAINER}
"""
V2 = f"0::/system.slice/docker-{CONTAINER}.scope\n"
NETWORK = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
    lo: 5000000   10    0    0    0     0          0         0  5000000   10    0    0    0     0       0
  eth0:%d  10    0    0    0     0          0         0  1000   10    0    0    0     0       0
  eth1:     100   10    0    0    0     0          0         0  10   10    0    0    0     0       0
"""


class Machine:
    """Files as the kernel shows them of one container."""

    def __init__(self, folder: Path, version: int) -> None:
        self.proc, self.cgroups, self.version = folder / "proc", folder / "cgroup", version
        (self.proc / "77").mkdir(parents=True)
        (self.proc / "77" / "cgroup").write_text(V1 if version == 1 else V2)
        if version == 1:
            self.cpu = self.cgroups / "cpuacct" / "docker" / CONTAINER
            self.memory = self.cgroups / "memory" / "docker" / CONTAINER
        else:
            self.cpu = self.memory = self.cgroups / "system.slice" / f"docker-{CONTAINER}.scope"
        for folder_ in {self.cpu, self.memory}:
            folder_.mkdir(parents=True)

    def set(self, *, cpu_ms: int, used: int, cache: int = 0, received: int | None = None) -> None:
        if received is not None:
            (self.proc / "77" / "net").mkdir(exist_ok=True)
            (self.proc / "77" / "net" / "dev").write_text(NETWORK % received)
        if self.version == 1:
            (self.cpu / "cpuacct.usage").write_text(f"{cpu_ms * 1_000_000}\n")
            (self.memory / "memory.usage_in_bytes").write_text(f"{used}\n")
            (self.memory / "memory.stat").write_text(f"cache {cache}\ninactive_file 1\ntotal_inactive_file {cache}\n")
        else:
            (self.cpu / "cpu.stat").write_text(f"usage_usec {cpu_ms * 1000}\nuser_usec 1\n")
            (self.memory / "memory.current").write_text(f"{used}\n")
            (self.memory / "memory.stat").write_text(f"anon 5\ninactive_file {cache}\nactive_file 3\n")


@pytest.fixture(params=[1, 2])
def machine(request, tmp_path) -> Machine:
    return Machine(tmp_path, request.param)


class OneContainer:
    """An engine with one container of a session."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.asked = 0
        self.away = False

    def containers(self) -> tuple[ContainerFact, ...]:
        self.asked += 1
        if self.away:
            raise EngineUnavailable("Docker does not answer.")
        return (ContainerFact(CONTAINER, self.session_id, running=True),)


def test_control_groups_of_both_versions_are_read(machine):
    machine.set(cpu_ms=1500, used=300 * MIB, cache=100 * MIB)
    assert read_groups(find_groups(77, machine.proc, machine.cgroups)) == ServerReading(1_500_000_000, 200 * MIB)


@pytest.mark.parametrize("text", ["", "garbage", "0\n"])
def test_what_can_not_be_read_is_not_reported(machine, text):
    machine.set(cpu_ms=1, used=2)
    for file in [*machine.cpu.iterdir(), *machine.memory.iterdir()]:
        file.write_text(text)
    reading = read_groups(find_groups(77, machine.proc, machine.cgroups))
    assert reading in (ServerReading(), ServerReading(0, 0), ServerReading(None, 0))
    assert read_groups(find_groups(4242, machine.proc, machine.cgroups)) == ServerReading()


def test_network_is_what_came_in_and_went_out_of_the_container(machine):
    machine.set(cpu_ms=1, used=2, received=123_456_789_012)
    assert read_network(77, machine.proc) == 123_456_789_012 + 1000 + 100 + 10
    assert read_network(4242, machine.proc) is None


@pytest.mark.parametrize("text", ["", "eth0: garbage", "eth0: 1 2 3", "\xff"])
def test_network_that_can_not_be_read_is_not_reported(machine, text):
    machine.set(cpu_ms=1, used=2, received=1)
    (machine.proc / "77" / "net" / "dev").write_text(text, encoding="latin-1")
    assert read_network(77, machine.proc) is None


def test_a_process_of_no_container_has_no_groups_of_its_own(machine):
    (machine.proc / "77" / "cgroup").write_text("4:memory:/\n0::/\n")
    assert find_groups(77, machine.proc, machine.cgroups) == {}


def test_a_server_is_credited_with_its_cpu_ram_and_network(lab, machine):
    lease = lab.start("ann", FlavorKind.CPU, gpus=0)
    fleet = OneContainer(lease.session_id)
    known = KnownContainers(fleet, lambda: lab.monotonic)
    paths = {"proc": machine.proc, "cgroups": machine.cgroups}
    meters = CgroupMeters(known, find_pid=lambda _: 77, ask_engine=lambda _: None, **paths)
    pace = Pace(LONGEST, lambda: lab.monotonic)
    sampler = ServerSampler(meters=meters, usage=lab.usage, book=lab.book, clock=lab.clock, pace=pace, database_wait=30)
    machine.set(cpu_ms=60_000, used=500 * MIB, received=7 * MIB)
    sampler.tick()
    for number in range(1, 7):
        lab.wait(10)
        machine.set(cpu_ms=60_000 + 2500 * number, used=500 * MIB, received=(7 + number) * MIB)
        sampler.tick()
    lab.wait(600)  # a gap
    machine.set(cpu_ms=999_000, used=500 * MIB, received=9000 * MIB)
    sampler.tick()
    usage = lab.written(lease)[SERVER]
    assert (usage.sampled_ms, usage.cpu_ms, usage.ram_byte_ms) == (60_000, 15_000, 60_000 * 500 * MIB)
    assert usage.network_bytes == 6 * MIB
    assert fleet.asked == 1, "nobody unknown turned up"


def test_a_counter_that_begins_anew_is_no_negative_time(lab, machine):
    lease = lab.start("ann", FlavorKind.CPU, gpus=0)
    counted = [(9_000_000_000, 1, 900), (1_000_000, 1, 100), (5_000_000, None, 150)]
    readings = iter([ServerReading(*each) for each in counted])
    meters = type("Meters", (), {"read": lambda self, ids: {lease.session_id: next(readings)}})()
    pace = Pace(LONGEST, lambda: lab.monotonic)
    sampler = ServerSampler(meters=meters, usage=lab.usage, book=lab.book, clock=lab.clock, pace=pace, database_wait=30)
    for _ in range(3):
        sampler.tick()
        lab.wait(10)
    usage = lab.written(lease)[SERVER]
    assert (usage.sampled_ms, usage.cpu_ms, usage.network_bytes) == (20_000, 4, 50)


def test_a_container_whose_groups_are_hidden_is_asked_of_the_engine(machine):
    known = KnownContainers(OneContainer("session"))
    told = ServerReading(5, 6)
    asked: list[str] = []
    meters = CgroupMeters(
        known,
        find_pid=lambda _: 4242,
        ask_engine=lambda container: asked.append(container) or told,
        proc=machine.proc,
        cgroups=machine.cgroups,
    )
    assert meters.read(["session"]) == {"session": told}
    assert asked == [CONTAINER]


def test_what_is_known_is_read_while_the_engine_is_away(machine):
    fleet = OneContainer("session")
    known = KnownContainers(fleet, iter(range(0, 1000, 100)).__next__)
    paths = {"proc": machine.proc, "cgroups": machine.cgroups}
    meters = CgroupMeters(known, find_pid=lambda _: 77, ask_engine=lambda _: None, **paths)
    machine.set(cpu_ms=1, used=5)
    before = meters.read(["session"])
    fleet.away = True
    assert meters.read(["session", "one that just began"]) == before
    assert set(before) == {"session"}
    with pytest.raises(EngineUnavailable, match="does not answer"):
        meters.read(["one that just began"])


def test_a_container_whose_files_went_away_has_no_reading(machine):
    known = KnownContainers(OneContainer("session"))
    paths = {"proc": machine.proc, "cgroups": machine.cgroups}
    pids = iter([77, 0])
    meters = CgroupMeters(known, find_pid=lambda _: next(pids), ask_engine=lambda _: None, **paths)
    machine.set(cpu_ms=1, used=5)
    assert meters.read(["session"])
    for file in [*machine.cpu.iterdir(), *machine.memory.iterdir()]:
        file.unlink(missing_ok=True)
    assert meters.read(["session"]) == {}
    assert meters.read(["session"]) == {}


def test_a_container_that_has_ended_has_no_reading(machine):
    known = KnownContainers(OneContainer("session"))
    meters = CgroupMeters(known, find_pid=lambda _: 0, ask_engine=lambda _: ServerReading(1, 1))
    assert meters.read(["session", "another"]) == {}


def test_the_engine_is_asked_for_unknown_containers_now_and_then_only():
    now = [0.0]
    fleet = OneContainer("session")
    known = KnownContainers(fleet, lambda: now[0])
    assert known.session_of(CONTAINER) == "session"
    for _ in range(50):
        assert known.session_of("f" * 64) is None
    assert fleet.asked == 1
    now[0] += ASK_AT_MOST_EVERY
    fleet.away = True
    with pytest.raises(EngineUnavailable, match="does not answer"):
        known.session_of("f" * 64)
    assert known.session_of(CONTAINER) == "session", "what is known stays"


@pytest.mark.parametrize(
    ("stats", "reading"),
    [
        ({}, ServerReading()),
        (
            {
                "cpu_stats": {"cpu_usage": {"total_usage": 7}},
                "memory_stats": {"usage": 9, "stats": {"inactive_file": 4}},
            },
            ServerReading(7, 5),
        ),
        (
            {"memory_stats": {"usage": 9, "stats": {"total_inactive_file": 2, "inactive_file": 4}}},
            ServerReading(None, 7),
        ),
        (
            {"networks": {"eth0": {"rx_bytes": 5, "tx_bytes": 6}, "eth1": {"rx_bytes": 1, "tx_bytes": 0}}},
            ServerReading(network=12),
        ),
    ],
)
def test_what_docker_stats_tells(stats, reading):
    assert read_stats(stats) == reading


# Processes


@contextmanager
def running(code: str, **environment: str):
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, **environment}, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_processes_are_summed_and_those_that_ended_stay_in_the_sum():
    spin = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
    wait = 'print("ready", flush=True)\nimport time\ntime.sleep(60)'
    with running(spin + wait) as first, running(wait) as second:
        found = {"s": [first.pid, second.pid]}
        meters = ProcessMeters(lambda: found)
        before = meters.read(["s", "another"])
        assert set(before) == {"s"}
        assert before["s"].cpu_ns is not None
        assert before["s"].cpu_ns >= 250_000_000
        assert before["s"].ram is not None
        assert before["s"].ram > 4 * MIB
        found["s"] = [second.pid]
        after = meters.read(["s"])["s"]
        assert after.cpu_ns is not None
        assert before["s"].cpu_ns <= after.cpu_ns < before["s"].cpu_ns + 100_000_000
        assert after.network is None, "they share the machine's"
    assert meters.read(["s"])["s"].ram == 0


def test_the_variables_of_a_process_tell_whose_it_is():
    with running('print("ready", flush=True)\nimport time\ntime.sleep(60)', NBGPU_SESSION_ID="s1") as process:
        assert variable_of(process.pid, "NBGPU_SESSION_ID") == "s1"
        assert variable_of(process.pid, "NBGPU_NOTHING") is None


@pytest.mark.case(21)
def test_a_process_of_another_namespace_can_not_be_placed(machine):
    assert container_of(77, machine.proc) == CONTAINER
    with pytest.raises(LookupError, match="process 4242"):
        container_of(4242, machine.proc)
    with pytest.raises(LookupError, match="process 4242"):
        variable_of(4242, "ANY", machine.proc)


def test_owners_are_looked_up_once_while_they_are_there():
    asked: list[int] = []
    owners = ProcessOwners(lambda pid: asked.append(pid) or f"session-{pid}")
    assert owners.find([1]) == {1: "session-1"}
    assert owners.find([2]) == {2: "session-2"}
    owners.turn()
    owners.find([1])
    owners.find([2])
    assert asked == [1, 2]
    owners.turn()
    owners.find([2])
    owners.turn()
    owners.find([1, 2])
    assert asked == [1, 2, 1], "an id that was away may be another process's now"
