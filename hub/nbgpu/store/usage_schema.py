"""The tables of the sampler and of the devices' health."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, text
from sqlalchemy.orm import Mapped, declared_attr, mapped_column

from nbgpu.store.schema import Base, UtcDateTime

_OPEN = text("returned_at IS NULL")


class _Usage:
    """Sums of samples over a span from `starts_at`, in seconds since 1970 (UTC).

    A row is of one `run` of the sampler, which replaces it by its own newer sums: whatever is repeated, nothing is
    counted twice, and another run's sums are never touched. Memory is in MiB-seconds, so that sums over a site fit.
    """

    @declared_attr
    @classmethod
    def session_id(cls) -> Mapped[str]:
        """Whose it is."""
        return mapped_column(String(36), ForeignKey("sessions.session_id"), primary_key=True)

    device_uuid: Mapped[str] = mapped_column(String(96), primary_key=True)  # "" is the server itself
    starts_at: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    run: Mapped[str] = mapped_column(String(12), primary_key=True)
    sampled_ms: Mapped[int] = mapped_column(BigInteger)
    busy_ms: Mapped[int | None] = mapped_column(BigInteger)
    gpu_memory_peak: Mapped[int | None] = mapped_column(BigInteger)  # bytes
    gpu_memory_mib_s: Mapped[int | None] = mapped_column(BigInteger)
    cpu_ms: Mapped[int | None] = mapped_column(BigInteger)
    ram_mib_s: Mapped[int | None] = mapped_column(BigInteger)
    network_bytes: Mapped[int | None] = mapped_column(BigInteger)


class UsageMinuteRow(_Usage, Base):
    """A minute; kept for some weeks."""

    __tablename__ = "usage_minutes"
    __table_args__ = (Index("ix_usage_minutes_starts_at", "starts_at"), {"sqlite_with_rowid": False})


class UsageHourRow(_Usage, Base):
    """An hour (of UTC); kept for ever."""

    __tablename__ = "usage_hours"
    # With what statements sum up: the index alone answers, in a third of the time.
    __table_args__ = (Index("ix_usage_hours_starts_at", "starts_at", "busy_ms"), {"sqlite_with_rowid": False})


class QuarantineRow(Base):
    """A device that is not leased for a fault, or was. A device has one open row at most."""

    __tablename__ = "quarantines"
    __table_args__ = (
        Index("uq_quarantines_open", "device_uuid", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    device_uuid: Mapped[str] = mapped_column(String(96))
    kind: Mapped[str] = mapped_column(String(10))
    cause: Mapped[str] = mapped_column(String(500))
    since: Mapped[datetime] = mapped_column(UtcDateTime)
    last_good_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    returned_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    returned_by: Mapped[str | None] = mapped_column(String(255))


class DeviceMarkRow(Base):
    """What the sampler last knew of a device, for its next run to go on from."""

    __tablename__ = "device_marks"

    device_uuid: Mapped[str] = mapped_column(String(96), primary_key=True)
    last_good_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    ecc_uncorrected: Mapped[int | None] = mapped_column(BigInteger)
