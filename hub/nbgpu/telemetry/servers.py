"""CPU, RAM and network of servers: read from the kernel's counters, noted as usage."""

from nbgpu.core.ports import Clock, ServerMeters, UsageStore
from nbgpu.core.usage import SERVER, Holding, ServerReading, elapsed_of, measure_server
from nbgpu.telemetry.latest import Latest
from nbgpu.telemetry.pace import Pace
from nbgpu.telemetry.usage_book import UsageBook

INTERVAL = 10.0  # seconds
LONGEST = 3 * INTERVAL
DATABASE_WAIT = 2.0  # seconds
_MS = 1_000_000  # nanoseconds


class ServerSampler:
    """Samples servers; `tick` blocks and is for one thread."""

    def __init__(
        self,
        *,
        meters: ServerMeters,
        usage: UsageStore,
        book: UsageBook,
        clock: Clock,
        pace: Pace | None = None,
        database_wait: float = DATABASE_WAIT,
    ) -> None:
        self._meters = meters
        self._book = book
        self._clock = clock
        self._pace = pace or Pace(LONGEST)
        self._holdings: Latest[tuple[Holding, ...]] = Latest(usage.holdings, (), wait=database_wait)
        self._before: dict[str, ServerReading] = {}  # by session, as of the last look

    def tick(self) -> None:
        """Look once. Raises EngineError when the engine must be asked and can't be."""
        elapsed = self._pace.elapsed_ms()
        servers = tuple(each for each in self._holdings.get() if each.metered.device_uuid == SERVER)
        before, self._before = self._before, {}
        readings = self._meters.read([each.metered.session_id for each in servers])
        now = self._clock()
        for holding in servers:
            session_id = holding.metered.session_id
            reading, earlier = readings.get(session_id), before.get(session_id)
            if reading is None:
                continue
            ms = elapsed_of(holding, now, elapsed, known=earlier is not None)
            moved = None if earlier is None else _grown(earlier.network, reading.network)
            usage = measure_server(ms, cpu_ms=_spent(earlier, reading), ram=reading.ram, network=moved)
            self._book.add(holding.metered, now, usage)
        self._before = readings


def _spent(before: ServerReading | None, now: ServerReading) -> int | None:
    """Return the CPU-milliseconds between two looks."""
    return None if before is None else _grown(_whole_ms(before.cpu_ns), _whole_ms(now.cpu_ns))


def _whole_ms(ns: int | None) -> int | None:
    return None if ns is None else ns // _MS


def _grown(before: int | None, now: int | None) -> int | None:
    """Return by how much a counter grew; one that began anew says nothing of the time before."""
    return None if before is None or now is None or now < before else now - before
