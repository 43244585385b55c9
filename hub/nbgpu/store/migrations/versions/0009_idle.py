"""What is found of servers' idleness: the signals' tracks, the last verdict, and what people asked for."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "idle",
        sa.Column("session_id", sa.String(36), sa.ForeignKey("sessions.session_id"), primary_key=True),
        sa.Column("judged_at", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("tracks", sa.JSON, nullable=False, server_default="{}"),
        sa.Column("cause", sa.String(20)),
        sa.Column("since", sa.BigInteger),
        sa.Column("limit_seconds", sa.BigInteger),
        sa.Column("forecast_at", sa.BigInteger),
        sa.Column("move_to", sa.String(40)),
        sa.Column("stop_at", sa.BigInteger),
        sa.Column("stop_cause", sa.String(20)),
        sa.Column("extended_until", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("extended_seconds", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("extended_at", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_index("ix_idle_stop_at", "idle", ["stop_at"])
