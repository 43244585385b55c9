"""Whether the containers of GPU servers still have their GPUs.

After `systemctl daemon-reload` on the host, at night by an automatic update, a running container can lose its devices
while the machine has them: programs in it that begin then fail, and only a new container helps. Nothing outside the
container shows it, so a small program in it asks the driver anew: once a minute where systemd manages Docker's control
groups, and now and then elsewhere. A look costs the machine about 0.15 s of CPU, nearly all in Docker and container.
"""

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from docker.errors import APIError

from nbgpu.core.gpu_health import Fault, FaultKind, Quarantine
from nbgpu.core.ports import Clock, UsageStore
from nbgpu.core.usage import SERVER
from nbgpu.spawner.docker_calls import call, to_engine_error
from nbgpu.telemetry.known_containers import KnownContainers

PERIOD = 60.0  # seconds between two rounds
RARE_PERIOD = 600.0  # where no cause is known that could take a container's devices
CAUSE = "The server's container has lost it; the machine has not. This happens when systemd is reloaded on the host."
_LIMIT = 8  # seconds that the program in the container may take
# Any Python will do: it asks the driver's library itself. It prints the codes of NVML's calls.
_PROGRAM = """
import ctypes, json
try:
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
except OSError:
    print(json.dumps({"library": False}))
else:
    count = ctypes.c_uint()
    begun = nvml.nvmlInit_v2()
    print(json.dumps({"library": True, "init": begun, "list": begun or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)),
                      "count": count.value}))
"""
COMMAND = ["timeout", "-k", "1", str(_LIMIT), "python3", "-I", "-S", "-c", _PROGRAM]

log = logging.getLogger("nbgpu.containers")


class Sight(Enum):
    """What a container sees of its GPUs."""

    SEES = "sees"
    LOST = "lost"
    UNKNOWN = "unknown"  # it could not be asked, or has nothing to ask with


class ContainerProbe:
    """Looks into containers, one after the other; `tick` blocks and is for one thread."""

    def __init__(
        self,
        *,
        usage: UsageStore,
        containers: KnownContainers,
        look: Callable[[str], Sight],
        machine_is_well: Callable[[], bool],
        period: Callable[[], float],
        report: Callable[[str, Quarantine], None],
        clock: Clock,
    ) -> None:
        """Take what looks into a container (its id), and whether the machine's own driver answers now.

        `period` returns the seconds between two rounds; it may raise EngineError.
        """
        self._usage = usage
        self._containers = containers
        self._look = look
        self._machine_is_well = machine_is_well
        self._period = period
        self._report = report
        self._clock = clock
        self._round_at: datetime | None = None
        self._seen_at: dict[str, datetime] = {}  # by session: when its container last saw its GPUs

    def tick(self) -> None:
        """Look into each container that has GPUs, if it is time for a round. Raises EngineError, StoreError."""
        now = self._clock()
        if not self._is_due(now):
            return
        held: dict[str, list[str]] = {}
        for holding in self._usage.holdings():
            if holding.metered.device_uuid != SERVER:
                held.setdefault(holding.metered.session_id, []).append(holding.metered.device_uuid)
        ids = self._containers.ids_of(held)
        self._seen_at = {session: at for session, at in self._seen_at.items() if session in held}
        for session, container in ids.items():
            self._judge(session, container, held[session])
        self._round_at = now

    def _is_due(self, now: datetime) -> bool:
        if self._round_at is None:
            return True
        return not timedelta(0) <= now - self._round_at < timedelta(seconds=self._period() * 0.9)

    def _judge(self, session: str, container: str, devices: list[str]) -> None:
        """A container that lost its GPUs is asked twice, and not believed while the machine's driver fails, too."""
        now = self._clock()
        sight = self._look(container)
        if sight is Sight.LOST and self._machine_is_well():
            sight = self._look(container)
        if sight is Sight.SEES:
            self._seen_at[session] = now
        elif sight is Sight.LOST and self._machine_is_well():
            for uuid in devices:
                fault = Fault(FaultKind.CONTAINER, CAUSE)
                self._report(session, Quarantine(uuid, now, fault, last_good_at=self._seen_at.get(session)))


def look_into(client: Any, container: str) -> Sight:
    """Ask the driver from inside a container. Raises EngineUnavailable when Docker does not answer."""
    try:
        asked = call(client, "exec_create", container, COMMAND, stdout=True, stderr=False)
        said = call(client, "exec_start", asked["Id"])
        code = call(client, "exec_inspect", asked["Id"])["ExitCode"]
    except APIError as error:
        log.debug("%s can't be looked into: %s", container[:12], to_engine_error(error))
        return Sight.UNKNOWN  # it has ended, is paused, …
    return read_answer(code, said)


def read_answer(code: int | None, said: bytes) -> Sight:
    """Return what the program's exit code and output mean."""
    answer: Mapping[str, Any] = {}
    with suppress(ValueError):
        answer = json.loads(said)
    if code != 0 or not isinstance(answer, dict) or not answer.get("library"):
        return Sight.UNKNOWN  # no Python, no driver's library, too slow
    return Sight.SEES if answer["init"] == answer["list"] == 0 and answer["count"] else Sight.LOST
