"""What sampling costs: all loops of the service for 8 GPUs and 40 sessions, against a process for each look."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from bench.figures import Figure
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.leases import ServerRef
from nbgpu.core.menu import Choice
from nbgpu.core.reconcile import ContainerFact
from nbgpu.nvml import NvmlInventory
from nbgpu.nvml.backoff import BackOff
from nbgpu.nvml.inventory import utc_now
from nbgpu.nvml.simulator import SimulatedDriver, activate
from nbgpu.nvml.simulator.activate import ROOT_VARIABLE
from nbgpu.service.loops import Loop, Loops
from nbgpu.store import SqlAuditLog, SqlLeaseStore, open_database
from nbgpu.store.quarantine import SqlQuarantines
from nbgpu.store.usage import SqlUsage
from nbgpu.telemetry import sampler, servers
from nbgpu.telemetry.cgroups import CgroupMeters
from nbgpu.telemetry.gpu_watch import GpuWatch
from nbgpu.telemetry.known_containers import KnownContainers
from nbgpu.telemetry.owners import ProcessOwners, container_of
from nbgpu.telemetry.usage_book import UsageBook
from support.site import make_flavor

SECONDS = 62.0  # one write a minute is in it
SESSIONS, SLOTS = 40, 5
PROCESSES_OF_LOOKS = 10
POLLER = """
import pynvml
pynvml.nvmlInit()
for index in range(pynvml.nvmlDeviceGetCount()):
    gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
    pynvml.nvmlDeviceGetUtilizationRates(gpu), pynvml.nvmlDeviceGetMemoryInfo(gpu)
    pynvml.nvmlDeviceGetTemperature(gpu, 0), pynvml.nvmlDeviceGetPowerUsage(gpu)
    pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)
pynvml.nvmlShutdown()
"""


def measure_sampler() -> Iterator[Figure]:
    """CPU time of this process while the loops run, as percent of one core; the same for looks by process."""
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder))
        with site.loops() as loops:
            loops.start()
            ours = _share(lambda: time.sleep(SECONDS))
            loops.stop()
        assert not any(each["failures"] for each in loops.health().values()), loops.health()
        assert len(site.usage.totals(utc_now() - timedelta(hours=2), utc_now())) == 2 * SESSIONS
        site.engine.dispose()
        theirs = _poll_share(site.library_folder)
    yield Figure("sampler.cpu", ours * 100, theirs * 100, "% of core", "ours under 1")


def _share(work: Callable[[], None]) -> float:
    begun, cpu = time.monotonic(), time.process_time()
    work()
    return (time.process_time() - cpu) / (time.monotonic() - begun)


def _poll_share(library: Path) -> float:
    """CPU seconds of one look by a process of its own, over the seconds between two looks."""
    before = os.times()
    for _ in range(PROCESSES_OF_LOOKS):
        environment = {**os.environ, "LD_LIBRARY_PATH": str(library)}
        subprocess.run([sys.executable, "-c", POLLER], check=True, env=environment)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent / PROCESSES_OF_LOOKS / sampler.INTERVAL


class Site:
    """Forty sessions, five to a GPU, each with a container as the kernel's files show it, and a process on its GPU."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        driver = SimulatedDriver(folder / "simulator")
        driver.create("8xA100")
        activate(driver.root)
        self.library_folder = driver.library_folder
        os.environ[ROOT_VARIABLE] = str(driver.root)
        self.engine = open_database(f"sqlite:///{folder / 'nbgpu.sqlite'}")
        self.usage = SqlUsage(self.engine)
        leases, devices = SqlLeaseStore(self.engine), NvmlInventory().snapshot().devices
        flavor = make_flavor("shared", FlavorKind.SHARED, slots=SLOTS)
        self.containers: dict[str, str] = {}  # session -> container
        on: dict[str, list[int]] = {}
        for number in range(SESSIONS):
            lease = leases.acquire(ServerRef(f"user-{number}"), Choice(flavor, "base"), "sha256:1", devices)
            leases.activate(lease.session_id, utc_now())
            container = f"{number:064x}"
            self.containers[lease.session_id] = container
            self._write_files(number, container)
            on.setdefault(lease.allocation.device_uuids[0], []).append(1000 + number)
        assert sorted(map(len, on.values())) == [SLOTS] * 8
        for uuid, pids in on.items():
            driver.set(
                uuid,
                gpu_utilization=50,
                processes=",".join(f"{pid}:1000000000" for pid in pids),
                process_utilization=",".join(f"{pid}:10" for pid in pids),
            )

    def _write_files(self, number: int, container: str) -> None:
        """The kernel's files of one container: version 2, with the many lines that memory.stat has."""
        process = self.folder / "proc" / str(1000 + number)
        group = self.folder / "cgroup" / "system.slice" / f"docker-{container}.scope"
        for made in (process, group):
            made.mkdir(parents=True)
        (process / "net").mkdir()
        (process / "net" / "dev").write_text("a | b\n  lo: 5 0 0 0 0 0 0 0 5 0\n  eth0: 123456789 0 0 0 0 0 0 0 5 0\n")
        (process / "cgroup").write_text(f"0::/system.slice/docker-{container}.scope\n")
        (group / "cpu.stat").write_text("usage_usec 1000000\nuser_usec 1\nsystem_usec 1\nnr_periods 0\n")
        (group / "memory.current").write_text("500000000\n")
        (group / "memory.stat").write_text(
            "".join(f"key_{line} 123456789\n" for line in range(40)) + "inactive_file 5\n"
        )

    @contextmanager
    def loops(self) -> Iterator[Loops]:
        """The service's loops, as `wiring.sampling` puts them together, on the files of this folder."""
        facts = tuple(ContainerFact(each, session, running=True) for session, each in self.containers.items())
        known = KnownContainers(type("Fleet", (), {"containers": lambda self: facts})())  # type: ignore[arg-type]
        proc, cgroups = self.folder / "proc", self.folder / "cgroup"
        pids = {container: 1000 + number for number, container in enumerate(self.containers.values())}
        book = UsageBook()
        watch = GpuWatch(
            quarantines=SqlQuarantines(self.engine),
            audit=SqlAuditLog(self.engine),
            known=self.usage.marks(),
            return_after=None,
            clock=utc_now,
        )
        gpus = sampler.Sampler(
            reader=NvmlInventory(back_off=BackOff(longest=timedelta(seconds=1))),
            usage=self.usage,
            book=book,
            owners=ProcessOwners(lambda pid: known.session_of(container_of(pid, proc) or "")),
            watch=watch,
            clock=utc_now,
        )
        meters = CgroupMeters(known, find_pid=pids.get, ask_engine=lambda _: None, proc=proc, cgroups=cgroups)
        cpu = servers.ServerSampler(meters=meters, usage=self.usage, book=book, clock=utc_now)
        writer = sampler.UsageWriter(usage=self.usage, book=book, marks=watch.marks, clock=utc_now)
        yield Loops(
            [
                Loop("gpus", sampler.INTERVAL, gpus.tick),
                Loop("faults", sampler.INTERVAL, watch.keep),
                Loop("servers", servers.INTERVAL, cpu.tick),
                Loop("usage", 60.0, writer.write),
                Loop("minutes", 3600.0, writer.forget),
            ]
        )
