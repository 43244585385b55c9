"""Sessions and leases."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_OPEN = sa.text("released_at IS NULL")


def upgrade() -> None:
    """Make the first tables."""
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.String(36), primary_key=True),
        sa.Column("username", sa.String(255), nullable=False),
        sa.Column("servername", sa.String(255), nullable=False),
        sa.Column("flavor", sa.String(40), nullable=False),
        sa.Column("image", sa.String(40), nullable=False),
        sa.Column("image_id", sa.String(255), nullable=False),
        sa.Column("price_per_hour", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False, index=True),
        sa.Column("active_at", sa.DateTime),
        sa.Column("released_at", sa.DateTime),
        sa.Column("release_reason", sa.String(255)),
    )
    op.create_table(
        "leases",
        sa.Column("session_id", sa.String(36), sa.ForeignKey("sessions.session_id"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("device_uuid", sa.String(96), nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("released_at", sa.DateTime),
    )
    for name, table, columns in (
        ("uq_sessions_open_server", "sessions", ["username", "servername"]),
        ("uq_leases_open_slot", "leases", ["device_uuid", "slot"]),
    ):
        op.create_index(name, table, columns, unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN)
