"""The tables of what everybody is told, and of maintenance."""

from datetime import datetime

from sqlalchemy import Index, Integer, String, text
from sqlalchemy.orm import Mapped, mapped_column

from nbgpu.core import broadcasts, reasons
from nbgpu.store.schema import Base, UtcDateTime

_OPEN = text("ended_at IS NULL")


class BroadcastRow(Base):
    """A message to everybody. Rows are only added, and withdrawn."""

    __tablename__ = "broadcasts"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    text: Mapped[str] = mapped_column(String(broadcasts.LONGEST))
    author: Mapped[str] = mapped_column(String(255))
    sent_at: Mapped[datetime] = mapped_column(UtcDateTime)
    until: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    withdrawn_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class MaintenanceRow(Base):
    """A machine's maintenance; a machine has one at a time."""

    __tablename__ = "maintenance"
    __table_args__ = (Index("uq_maintenance_open", "node", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    node: Mapped[str] = mapped_column(String(255))  # "" is the machine of the hub
    reason: Mapped[str] = mapped_column(String(reasons.LONGEST))
    author: Mapped[str] = mapped_column(String(255))
    since: Mapped[datetime] = mapped_column(UtcDateTime)
    stop_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
