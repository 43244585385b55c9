"""The tables. Sessions and their slots are written together, in one transaction, before anything is created."""

from datetime import UTC, datetime

from sqlalchemy import BigInteger, DateTime, Dialect, ForeignKey, Index, Integer, MetaData, String, TypeDecorator, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from nbgpu.core.leases import REASON_LENGTH


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC instant: SQLite keeps no zone, so it is taken off on the way in and put back on the way out."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Refuse naive times: they have no meaning here."""
        if value is not None and value.tzinfo is None:
            raise ValueError(f"naive time {value}: give it a zone")
        return value.astimezone(UTC).replace(tzinfo=None) if value is not None else None

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return an aware instant."""
        return value.replace(tzinfo=UTC) if value is not None else None


class Base(DeclarativeBase):
    """All tables of ours."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


_OPEN = text("released_at IS NULL")
_IN_USE = text("archived_at IS NULL")


class SessionRow(Base):
    """One lifetime of a server: what it was granted, at what price. Rows are never deleted."""

    __tablename__ = "sessions"
    __table_args__ = (
        Index("ix_sessions_newest", "username", "servername", "created_at"),
        # A server has one session at a time; the last guard behind the transaction.
        Index(
            "uq_sessions_open_server", "username", "servername", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN
        ),
    )

    session_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    username: Mapped[str] = mapped_column(String(255))
    servername: Mapped[str] = mapped_column(String(255))
    flavor: Mapped[str] = mapped_column(String(40))
    image: Mapped[str] = mapped_column(String(40))
    image_id: Mapped[str] = mapped_column(String(255))
    price_per_hour: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(String(10))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    active_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    released_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    release_reason: Mapped[str | None] = mapped_column(String(REASON_LENGTH))
    slots: Mapped[list["LeaseRow"]] = relationship(back_populates="session", order_by="LeaseRow.position")


class LeaseRow(Base):
    """One slot of a device that a session holds, or held."""

    __tablename__ = "leases"
    __table_args__ = (
        # A slot is in at most one open lease; the last guard behind the transaction.
        Index("uq_leases_open_slot", "device_uuid", "slot", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN),
    )

    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.session_id"), primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True)  # order in which the server sees them
    device_uuid: Mapped[str] = mapped_column(String(96))
    slot: Mapped[int] = mapped_column(Integer)
    slots: Mapped[int] = mapped_column(Integer)  # that the device is cut into
    released_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    session: Mapped[SessionRow] = relationship(back_populates="slots")


class AuditRow(Base):
    """Something done on somebody's authority, or on our own as a repair. Rows are only ever added."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    recorded_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    actor: Mapped[str] = mapped_column(String(255))
    action: Mapped[str] = mapped_column(String(40))
    subject: Mapped[str] = mapped_column(String(512))
    detail: Mapped[str] = mapped_column(String(1000))


class HomeRow(Base):
    """The volume of a user's home, as it was first named: a later naming rule leaves it where it is.

    A user name has one home in use; those of earlier people with that name are archived and never given out again.
    """

    __tablename__ = "homes"
    __table_args__ = (
        Index("uq_homes_in_use", "username", unique=True, sqlite_where=_IN_USE, postgresql_where=_IN_USE),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    username: Mapped[str] = mapped_column(String(255))
    volume: Mapped[str] = mapped_column(String(255), unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    archived_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
