"""The tables. Sessions and their slots are written together, in one transaction, before anything is created."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    TypeDecorator,
    UniqueConstraint,
    false,
    text,
    true,
)
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
# As SQLAlchemy writes ~settled for each: SQLite uses the index for these very words alone.
_UNSETTLED, _UNSETTLED_POSTGRESQL = text("settled = 0"), text("NOT settled")


class SessionRow(Base):
    """One lifetime of a server: what it was granted, at what price. Rows are never deleted."""

    __tablename__ = "sessions"
    __table_args__ = (
        Index("ix_sessions_newest", "username", "servername", "created_at"),
        # A server has one session at a time; the last guard behind the transaction.
        Index(
            "uq_sessions_open_server", "username", "servername", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN
        ),
        Index("ix_sessions_unsettled", "settled", sqlite_where=_UNSETTLED, postgresql_where=_UNSETTLED_POSTGRESQL),
        Index("ix_sessions_billing_group", "billing_group", "created_at"),
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
    # What the ledger charges by.
    tariff: Mapped[str] = mapped_column(String(20), server_default="on-demand")
    billing_group: Mapped[str] = mapped_column(String(255), server_default="")  # whose pool pays; "" is none
    paid_by: Mapped[str] = mapped_column(String(40), server_default="")  # the budget of that group; "" is none
    seen_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  # when its container was last seen running
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  # the container's own finish time
    clock_shift: Mapped[int] = mapped_column(Integer, server_default="0")  # s that steps of the clock hide
    billable: Mapped[bool] = mapped_column(Boolean, server_default=true())  # false: it never became ready
    settled: Mapped[bool] = mapped_column(Boolean, server_default=false())  # all its charges are posted
    posted_until: Mapped[int | None] = mapped_column(BigInteger)  # full hour up to which all that is due is posted
    # What it may do.
    user_groups: Mapped[list[str]] = mapped_column(JSON, server_default="[]")  # of its person, at the start
    time_limit: Mapped[int | None] = mapped_column(BigInteger)  # s, of its flavor at the start
    authorized_seconds: Mapped[int | None] = mapped_column(BigInteger)  # longest run; None is no limit
    authorized_by: Mapped[str | None] = mapped_column(String(20))  # what sets that
    stop_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  # when it will be stopped
    stop_cause: Mapped[str | None] = mapped_column(String(20))
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
    lost_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  # last good sample of a device that failed
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


class PriceRow(Base):
    """A price of a SKU from an instant on. Rows are only ever added; of two at one instant the later row holds."""

    __tablename__ = "prices"
    __table_args__ = (Index("ix_prices_sku", "sku_id", "effective_from"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    sku_id: Mapped[str] = mapped_column(String(80))
    effective_from: Mapped[int] = mapped_column(BigInteger)  # seconds since 1970, UTC
    unit: Mapped[str] = mapped_column(String(20))
    list_unit_price: Mapped[int] = mapped_column(BigInteger)  # micro-units for an hour
    currency: Mapped[str] = mapped_column(String(3))
    source: Mapped[str] = mapped_column(String(10))  # "settings" or "admin"
    author: Mapped[str] = mapped_column(String(255))
    recorded_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ChargeRow(Base):
    """A line of the ledger. Rows are only ever added, in sealed batches; ids have no gaps.

    Instants are whole seconds since 1970 in UTC: half a million rows a month are summed by them.
    """

    __tablename__ = "charges"
    __table_args__ = (
        Index("ix_charges_period", "charge_period_start"),
        Index("ix_charges_user", "username", "charge_period_start"),
        Index("ix_charges_group", "billing_group", "charge_period_start"),
        Index("ix_charges_session", "session_id", "charge_period_start"),
    )

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False)
    charge_key: Mapped[str] = mapped_column(String(255), unique=True)
    session_id: Mapped[str] = mapped_column(String(36))  # "" where no session is charged
    username: Mapped[str] = mapped_column(String(255))
    billing_group: Mapped[str] = mapped_column(String(255))
    flavor: Mapped[str] = mapped_column(String(40))
    sku_id: Mapped[str] = mapped_column(String(80))
    resource_id: Mapped[str] = mapped_column(String(96))  # device UUID; "" is the server itself
    charge_category: Mapped[str] = mapped_column(String(10))
    charge_class: Mapped[str] = mapped_column(String(10))
    charge_period_start: Mapped[int] = mapped_column(BigInteger)
    charge_period_end: Mapped[int] = mapped_column(BigInteger)
    consumed_seconds: Mapped[int] = mapped_column(BigInteger)  # of the resource
    consumed_unit: Mapped[str] = mapped_column(String(20))
    list_unit_price: Mapped[int] = mapped_column(BigInteger)  # micro-units for an hour
    billed_cost: Mapped[int] = mapped_column(BigInteger)  # micro-units
    billing_currency: Mapped[str] = mapped_column(String(3))
    estimated: Mapped[bool] = mapped_column(Boolean)
    author: Mapped[str] = mapped_column(String(255))
    reason: Mapped[str] = mapped_column(String(1000))
    recorded_at: Mapped[int] = mapped_column(BigInteger)


class SealRow(Base):
    """What proves that a batch of charges is as it was posted: a digest over it and the digest before."""

    __tablename__ = "seals"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    last_charge_id: Mapped[int] = mapped_column(BigInteger)
    digest: Mapped[str] = mapped_column(String(64))


class MeterRow(Base):
    """The meter's last tick, by the machine's two clocks: how a step of the first is noticed. One row."""

    __tablename__ = "meter"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    ticked_at: Mapped[datetime] = mapped_column(UtcDateTime)
    uptime: Mapped[int] = mapped_column(BigInteger)  # ms since boot
    boot_id: Mapped[str] = mapped_column(String(64))
    # Steps of the clock while sessions were starting: by session, which is told when its start is known.
    undecided: Mapped[dict[str, list[dict[str, Any]]]] = mapped_column(JSON, server_default="{}")


class AlertRow(Base):
    """A share of a budget that was reached in a period."""

    __tablename__ = "alerts"
    __table_args__ = (UniqueConstraint("budget", "owner", "period_start", "percent", "amount"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    budget: Mapped[str] = mapped_column(String(40))
    owner: Mapped[str] = mapped_column(String(255))  # user name, or group of a pool
    period_start: Mapped[int] = mapped_column(BigInteger)
    percent: Mapped[int] = mapped_column(Integer)
    spent: Mapped[int] = mapped_column(BigInteger)  # micro-units, when it was raised
    amount: Mapped[int] = mapped_column(BigInteger)
    forecast: Mapped[int | None] = mapped_column(BigInteger)  # when all will be spent
    raised_at: Mapped[datetime] = mapped_column(UtcDateTime)
    sent_at: Mapped[datetime | None] = mapped_column(UtcDateTime)  # None while it is to be sent
