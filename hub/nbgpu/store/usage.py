"""Usage, kept: minutes for some weeks and hours for ever, written by the sampler once a minute.

A row is the sums of one run of the sampler over one span. Writing it again replaces it, so a write that is repeated
after a broken connection changes nothing; a restarted sampler has a run of its own and adds rows beside.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, Select, Table, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from nbgpu.core.gpu_health import DeviceHealth
from nbgpu.core.usage import HOUR, MINUTE, SERVER, Holding, Metered, Usage, UsageEntry
from nbgpu.store.schema import LeaseRow, SessionRow
from nbgpu.store.usage_schema import DeviceMarkRow, UsageHourRow, UsageMinuteRow
from nbgpu.store.work import retried, unit_of_work

_MIB_SECOND = 1000 * 2**20  # byte-milliseconds
_TABLES = {MINUTE: UsageMinuteRow, HOUR: UsageHourRow}
_SUMS = ("sampled_ms", "busy_ms", "gpu_memory_mib_s", "cpu_ms", "ram_mib_s", "network_bytes")

# Asked every two seconds, so it is put together once.
_HOLDINGS = (
    select(SessionRow.session_id, SessionRow.active_at, LeaseRow.device_uuid, LeaseRow.slots, LeaseRow.lost_at)
    .outerjoin(LeaseRow, (LeaseRow.session_id == SessionRow.session_id) & LeaseRow.released_at.is_(None))
    .where(SessionRow.released_at.is_(None), SessionRow.active_at.is_not(None))
)


class SqlUsage:
    """Usage in the database; safe to use from many threads and processes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._insert = postgresql.insert if engine.dialect.name == "postgresql" else sqlite.insert

    @retried
    def holdings(self) -> tuple[Holding, ...]:
        """Return what active sessions hold: each server, and each device that was not lost."""
        with unit_of_work(self._engine, reads_only=True) as db:
            rows = db.execute(_HOLDINGS).all()
        servers = {row.session_id: Holding(Metered(row.session_id), row.active_at) for row in rows}
        devices = (
            Holding(Metered(row.session_id, row.device_uuid), row.active_at, shared=row.slots > 1)
            for row in rows
            if row.device_uuid is not None and row.lost_at is None
        )
        return (*servers.values(), *devices)

    def write(self, entries: Mapping[timedelta, Iterable[UsageEntry]], marks: Mapping[str, DeviceHealth]) -> None:
        """Replace the runs' rows of the spans (MINUTE, HOUR), and the devices' marks, in one transaction."""
        with unit_of_work(self._engine) as db:
            for span, found in entries.items():
                rows = [_to_row(entry) for entry in found]
                if rows:
                    table: Table = _TABLES[span].__table__  # type: ignore[assignment]
                    db.execute(self._replace(table), rows)
            if marks:
                table = DeviceMarkRow.__table__  # type: ignore[assignment]
                db.execute(self._replace(table), [_to_mark(uuid, health) for uuid, health in marks.items()])

    @retried
    def marks(self) -> dict[str, DeviceHealth]:
        """Return what was last known of each device."""
        with unit_of_work(self._engine, reads_only=True) as db:
            rows = db.scalars(select(DeviceMarkRow)).all()
        return {row.device_uuid: DeviceHealth(row.last_good_at, row.ecc_uncorrected) for row in rows}

    @retried
    def of_session(self, session_id: str) -> dict[str, Usage]:
        """Return the whole of a session's usage, by device; `SERVER` is the server's own."""
        query = _sums(UsageHourRow.device_uuid).where(UsageHourRow.session_id == session_id)
        with unit_of_work(self._engine, reads_only=True) as db:
            rows = db.execute(query.group_by(UsageHourRow.device_uuid)).all()
        return {row.device_uuid: _to_usage(row) for row in rows}

    @retried
    def totals(self, start: datetime, end: datetime) -> dict[tuple[str, str, bool], Usage]:
        """Return the usage of the hours that start in [start, end), by (user, flavor, whether it is of devices).

        Servers (CPU and RAM) and devices are apart: the sampled time of one says nothing of the other.
        """
        of_device = (UsageHourRow.device_uuid != SERVER).label("of_device")
        query = (
            _sums(SessionRow.username, SessionRow.flavor, of_device)
            .join(SessionRow, SessionRow.session_id == UsageHourRow.session_id)
            .where(UsageHourRow.starts_at >= _seconds(start), UsageHourRow.starts_at < _seconds(end))
            .group_by(SessionRow.username, SessionRow.flavor, of_device)
        )
        with unit_of_work(self._engine, reads_only=True) as db:
            rows = db.execute(query).all()
        return {(row.username, row.flavor, bool(row.of_device)): _to_usage(row) for row in rows}

    @retried
    def minutes(self, session_id: str, start: datetime, end: datetime) -> tuple[UsageEntry, ...]:
        """Return a session's minutes that start in [start, end), oldest first; those of long ago are gone."""
        row = UsageMinuteRow
        query = (
            _sums(row.device_uuid, row.starts_at, table=row)
            .where(row.session_id == session_id, row.starts_at >= _seconds(start), row.starts_at < _seconds(end))
            .group_by(row.device_uuid, row.starts_at)
            .order_by(row.starts_at, row.device_uuid)
        )
        with unit_of_work(self._engine, reads_only=True) as db:
            rows = db.execute(query).all()
        return tuple(
            UsageEntry(Metered(session_id, each.device_uuid), _instant(each.starts_at), _to_usage(each))
            for each in rows
        )

    @retried
    def forget_minutes(self, before: datetime, *, at_once: int = 10_000) -> int:
        """Delete minutes that started before an instant; their sums stay in the hours. Return how many, bounded."""
        row = UsageMinuteRow
        with unit_of_work(self._engine) as db:
            # A bounded part of the past: a sampler that was off for long must not hold the database for long.
            oldest = db.scalars(
                select(row.starts_at).where(row.starts_at < _seconds(before)).order_by(row.starts_at).limit(at_once)
            ).all()
            if oldest:
                db.execute(delete(row).where(row.starts_at <= oldest[-1]))
            return len(oldest)

    def _replace(self, table: Table) -> Any:
        """An insert that takes the place of the row with the same key."""
        statement = self._insert(table)
        values = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
        return statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=values)


def _to_row(entry: UsageEntry) -> dict[str, object]:
    usage = entry.usage
    return {
        "session_id": entry.metered.session_id,
        "device_uuid": entry.metered.device_uuid,
        "starts_at": _seconds(entry.starts_at),
        "run": entry.run,
        "sampled_ms": usage.sampled_ms,
        "busy_ms": usage.busy_ms,
        "gpu_memory_peak": usage.gpu_memory_peak,
        "gpu_memory_mib_s": _mib_seconds(usage.gpu_memory_byte_ms),
        "cpu_ms": usage.cpu_ms,
        "ram_mib_s": _mib_seconds(usage.ram_byte_ms),
        "network_bytes": usage.network_bytes,
    }


def _to_mark(uuid: str, health: DeviceHealth) -> dict[str, object]:
    return {"device_uuid": uuid, "last_good_at": health.last_good_at, "ecc_uncorrected": health.ecc_uncorrected}


def _sums(*columns: Any, table: type[Any] = UsageHourRow) -> Select[Any]:
    """A query of the sums; SQL's SUM skips NULL, and is NULL where all are: as "not reported" must be."""
    sums = [func.sum(getattr(table, name)).label(name) for name in _SUMS]
    return select(*columns, *sums, func.max(table.gpu_memory_peak).label("gpu_memory_peak"))


def _to_usage(row: Any) -> Usage:
    return Usage(
        sampled_ms=int(row.sampled_ms),
        busy_ms=_whole(row.busy_ms),
        gpu_memory_peak=_whole(row.gpu_memory_peak),
        gpu_memory_byte_ms=_byte_ms(row.gpu_memory_mib_s),
        cpu_ms=_whole(row.cpu_ms),
        ram_byte_ms=_byte_ms(row.ram_mib_s),
        network_bytes=_whole(row.network_bytes),
    )


def _whole(value: Any) -> int | None:
    """A sum as PostgreSQL gives it is a decimal."""
    return None if value is None else int(value)


def _byte_ms(mib_seconds: Any) -> int | None:
    return None if mib_seconds is None else int(mib_seconds) * _MIB_SECOND


def _mib_seconds(byte_ms: int | None) -> int | None:
    return None if byte_ms is None else (byte_ms + _MIB_SECOND // 2) // _MIB_SECOND


def _instant(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _seconds(instant: datetime) -> int:
    return int(instant.timestamp())
