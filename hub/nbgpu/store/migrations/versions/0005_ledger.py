"""The ledger: prices, charges and their seals, and the facts of sessions that they follow from."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the tables and columns. The ledger begins here: sessions that have ended before are not charged."""
    for column in (
        sa.Column("tariff", sa.String(20), nullable=False, server_default="on-demand"),
        sa.Column("billing_group", sa.String(255), nullable=False, server_default=""),
        sa.Column("paid_by", sa.String(40), nullable=False, server_default=""),
        sa.Column("seen_at", sa.DateTime),
        sa.Column("ended_at", sa.DateTime),
        sa.Column("clock_shift", sa.Integer, nullable=False, server_default="0"),
        sa.Column("billable", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("settled", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("posted_until", sa.BigInteger),
        sa.Column("user_groups", sa.JSON, nullable=False, server_default="[]"),
        sa.Column("time_limit", sa.BigInteger),
        sa.Column("authorized_seconds", sa.BigInteger),
        sa.Column("authorized_by", sa.String(20)),
        sa.Column("stop_at", sa.DateTime),
        sa.Column("stop_cause", sa.String(20)),
    ):
        op.add_column("sessions", column)
    op.add_column("leases", sa.Column("lost_at", sa.DateTime))
    op.execute("UPDATE sessions SET settled = true WHERE released_at IS NOT NULL")
    op.create_index(
        "ix_sessions_unsettled",
        "sessions",
        ["settled"],
        sqlite_where=sa.text("settled = 0"),
        postgresql_where=sa.text("NOT settled"),
    )
    op.create_index("ix_sessions_billing_group", "sessions", ["billing_group", "created_at"])
    _make_prices()
    _make_charges()


def _make_prices() -> None:
    op.create_table(
        "prices",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("sku_id", sa.String(80), nullable=False),
        sa.Column("effective_from", sa.BigInteger, nullable=False),
        sa.Column("unit", sa.String(20), nullable=False),
        sa.Column("list_unit_price", sa.BigInteger, nullable=False),
        sa.Column("currency", sa.String(3), nullable=False),
        sa.Column("source", sa.String(10), nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("recorded_at", sa.DateTime, nullable=False),
    )
    op.create_index("ix_prices_sku", "prices", ["sku_id", "effective_from"])


def _make_charges() -> None:
    op.create_table(
        "charges",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
        sa.Column("charge_key", sa.String(255), nullable=False, unique=True),
        sa.Column("session_id", sa.String(36), nullable=False),
        sa.Column("username", sa.String(255), nullable=False),
        sa.Column("billing_group", sa.String(255), nullable=False),
        sa.Column("flavor", sa.String(40), nullable=False),
        sa.Column("sku_id", sa.String(80), nullable=False),
        sa.Column("resource_id", sa.String(96), nullable=False),
        sa.Column("charge_category", sa.String(10), nullable=False),
        sa.Column("charge_class", sa.String(10), nullable=False),
        sa.Column("charge_period_start", sa.BigInteger, nullable=False),
        sa.Column("charge_period_end", sa.BigInteger, nullable=False),
        sa.Column("consumed_seconds", sa.BigInteger, nullable=False),
        sa.Column("consumed_unit", sa.String(20), nullable=False),
        sa.Column("list_unit_price", sa.BigInteger, nullable=False),
        sa.Column("billed_cost", sa.BigInteger, nullable=False),
        sa.Column("billing_currency", sa.String(3), nullable=False),
        sa.Column("estimated", sa.Boolean, nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("reason", sa.String(1000), nullable=False),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
    )
    for name, columns in (
        ("ix_charges_period", ["charge_period_start"]),
        ("ix_charges_user", ["username", "charge_period_start"]),
        ("ix_charges_group", ["billing_group", "charge_period_start"]),
        ("ix_charges_session", ["session_id", "charge_period_start"]),
    ):
        op.create_index(name, "charges", columns)
    op.create_table(
        "seals",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("last_charge_id", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
    )
    op.create_table(
        "meter",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("ticked_at", sa.DateTime, nullable=False),
        sa.Column("uptime", sa.BigInteger, nullable=False),
        sa.Column("boot_id", sa.String(64), nullable=False),
        sa.Column("undecided", sa.JSON, nullable=False, server_default="{}"),
    )
