"""The sampler and what belongs to it, put together for one deployment."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from requests.exceptions import RequestException

from nbgpu.core.errors import EngineError
from nbgpu.core.ports import GpuReader, ServerMeters
from nbgpu.core.usage import ServerReading
from nbgpu.nvml import open_inventory
from nbgpu.nvml.backoff import BackOff
from nbgpu.nvml.inventory import utc_now
from nbgpu.service.loops import Loop
from nbgpu.spawner.docker_calls import LateClient, call, inspect
from nbgpu.spawner.local_sessions import DEPLOYMENT_VARIABLE, SESSION_VARIABLE
from nbgpu.telemetry import idle
from nbgpu.telemetry.cgroups import CgroupMeters
from nbgpu.telemetry.container_probe import PERIOD, RARE_PERIOD, ContainerProbe, look_into
from nbgpu.telemetry.device_keeper import DeviceKeeper
from nbgpu.telemetry.gauges import Gauges
from nbgpu.telemetry.gpu_watch import GpuWatch
from nbgpu.telemetry.known_containers import KnownContainers
from nbgpu.telemetry.loss_notices import PERIOD as LOSSES_PERIOD
from nbgpu.telemetry.loss_notices import LossTeller
from nbgpu.telemetry.owners import ProcessOwners, container_of, variable_of
from nbgpu.telemetry.process_meters import ProcessMeters
from nbgpu.telemetry.sampler import INTERVAL, Sampler, UsageWriter
from nbgpu.telemetry.servers import INTERVAL as SERVERS_INTERVAL
from nbgpu.telemetry.servers import ServerSampler
from nbgpu.telemetry.usage_book import UsageBook
from nbgpu.wiring.adapters import MODES, Adapters
from nbgpu.wiring.local import open_sessions
from nbgpu.wiring.money import Money
from nbgpu.wiring.pool import ServicePool

WRITE_PERIOD = 60.0  # seconds
FORGET_PERIOD = 3600.0
_TRY_AGAIN = timedelta(seconds=1.5)  # less than between two looks: a driver that is back is read at the next one


@dataclass(frozen=True)
class Sampling:
    """The parts of the sampler of one deployment, each built when it is first asked for."""

    adapters: Adapters

    def loops(self) -> tuple[Loop, ...]:
        """Return what the service runs."""
        found = [
            Loop("gpus", INTERVAL, self.sampler.tick),
            Loop("faults", INTERVAL, self.watch.keep),
            Loop("servers", SERVERS_INTERVAL, self.servers.tick),
            Loop("usage", WRITE_PERIOD, self.writer.write),
            Loop("minutes", FORGET_PERIOD, self.writer.forget),
            Loop("losses", LOSSES_PERIOD, self.losses.tick),
            Loop("idle", idle.TURN, self.idle_watch.turn),
        ]
        if not self.adapters.is_local:  # a process sees what the machine sees
            found.append(Loop("containers", PERIOD, self.probe.tick))
        return tuple(found)

    @cached_property
    def sampler(self) -> Sampler:
        """Looks at the GPUs."""
        return Sampler(
            reader=self.reader,
            usage=self.adapters.usage,
            book=self.book,
            owners=ProcessOwners(self._find_session),
            watch=self.watch,
            clock=utc_now,
        )

    @cached_property
    def servers(self) -> ServerSampler:
        """Looks at CPU, RAM and network."""
        return ServerSampler(meters=self.meters, usage=self.adapters.usage, book=self.book, clock=utc_now)

    @cached_property
    def writer(self) -> UsageWriter:
        """Writes to the database."""
        usage = self.adapters.usage
        return UsageWriter(usage=usage, book=self.book, marks=self.watch.marks, clock=utc_now)

    @cached_property
    def watch(self) -> GpuWatch:
        """Watches the devices' health. Raises StoreError."""
        return GpuWatch(
            quarantines=self.adapters.quarantines,
            audit=self.adapters.audit,
            known=self.adapters.usage.marks(),
            return_after=self.adapters.settings.gpus.return_after,
            clock=utc_now,
        )

    @cached_property
    def probe(self) -> ContainerProbe:
        """Looks into containers."""
        return ContainerProbe(
            usage=self.adapters.usage,
            containers=self.containers,
            look=lambda container: look_into(self._docker, container),
            machine_is_well=lambda: not self.sampler.stale,
            period=lambda: PERIOD if self._systemd_manages else RARE_PERIOD,
            report=self.watch.report_lost,
            clock=utc_now,
        )

    @cached_property
    def losses(self) -> LossTeller:
        """Tells servers that have lost a GPU."""
        return LossTeller(self.adapters.quarantines.losses, Money(self.adapters).notices, utc_now)

    @cached_property
    def reader(self) -> GpuReader:
        """The driver, asked again sooner than elsewhere after it failed."""
        gpus = self.adapters.settings.gpus
        root = self.adapters.deployment.simulator_root
        return open_inventory(root, gpus.simulated, mode=MODES[gpus.driver], back_off=BackOff(longest=_TRY_AGAIN))

    @cached_property
    def book(self) -> UsageBook:
        """What is not written yet."""
        return UsageBook(tell=self.gauges.add)

    @cached_property
    def gauges(self) -> Gauges:
        """What was measured since the last look at idle servers."""
        return Gauges()

    @cached_property
    def idle_watch(self) -> idle.IdleWatch:
        """Finds idle servers."""
        return idle.IdleWatch(
            store=self.adapters.idle, gauges=self.gauges, site=self.adapters.settings.idle_site, clock=utc_now
        )

    @cached_property
    def pool(self) -> ServicePool:
        """The devices as pages show them."""
        adapters = self.adapters
        keeper = DeviceKeeper(
            inventory=adapters.inventory, quarantines=adapters.quarantines, audit=adapters.audit, clock=utc_now
        )
        return ServicePool(adapters, sampler=self.sampler, watch=self.watch, keeper=keeper)

    @cached_property
    def containers(self) -> KnownContainers:
        """Which container is whose."""
        return KnownContainers(self.adapters.fleet)

    @cached_property
    def meters(self) -> ServerMeters:
        """CPU, RAM and network of servers."""
        if self.adapters.is_local:
            return ProcessMeters(open_sessions(self.adapters.deployment).processes)
        return CgroupMeters(self.containers, find_pid=self._find_pid, ask_engine=self._ask_engine)

    @cached_property
    def _docker(self) -> LateClient:
        return LateClient(lambda: self.adapters.docker.api)

    @cached_property
    def _systemd_manages(self) -> bool:
        """Whether a reload of systemd can take devices from containers. Raises EngineUnavailable."""
        return bool(call(self._docker, "info").get("CgroupDriver") == "systemd")

    def _find_session(self, pid: int) -> str | None:
        if self.adapters.is_local:
            ours = variable_of(pid, DEPLOYMENT_VARIABLE) == self.adapters.deployment.prefix
            return variable_of(pid, SESSION_VARIABLE) if ours else None
        container = container_of(pid)
        try:
            return self.containers.session_of(container) if container is not None else None
        except EngineError as error:
            raise LookupError(str(error)) from error

    def _find_pid(self, container: str) -> int | None:
        found = inspect(self._docker, container)
        return int(found["State"]["Pid"]) if found is not None else None

    def _ask_engine(self, container: str) -> ServerReading | None:
        """Return what `docker stats` tells: for engines whose control groups can't be seen from here."""
        try:
            return read_stats(call(self._docker, "stats", container, stream=False, one_shot=True))
        except RequestException:
            return None


def read_stats(stats: Mapping[str, Any]) -> ServerReading:
    """Return CPU, RAM and network from an answer of Docker's; what it does not report is None."""
    memory = stats.get("memory_stats") or {}
    details = memory.get("stats") or {}
    used = memory.get("usage")
    droppable = details.get("total_inactive_file", details.get("inactive_file", 0))
    cpu = ((stats.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage")
    devices = (stats.get("networks") or {}).values()
    network = sum(each.get("rx_bytes", 0) + each.get("tx_bytes", 0) for each in devices) if devices else None
    return ServerReading(cpu, None if used is None else max(0, used - droppable), network)
