"""What everybody is told, and maintenance."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
_OPEN = sa.text("ended_at IS NULL")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "broadcasts",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("text", sa.String(500), nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("sent_at", sa.DateTime, nullable=False),
        sa.Column("until", sa.DateTime, nullable=False),
        sa.Column("withdrawn_at", sa.DateTime),
    )
    op.create_index("ix_broadcasts_until", "broadcasts", ["until"])
    op.create_table(
        "maintenance",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("reason", sa.String(200), nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("since", sa.DateTime, nullable=False),
        sa.Column("stop_at", sa.DateTime),
        sa.Column("ended_at", sa.DateTime),
    )
    op.create_index(
        "uq_maintenance_open", "maintenance", ["node"], unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN
    )
