"""Home volumes by user name."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_IN_USE = sa.text("archived_at IS NULL")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "homes",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("username", sa.String(255), nullable=False),
        sa.Column("volume", sa.String(255), nullable=False, unique=True),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("archived_at", sa.DateTime),
    )
    op.create_index(
        "uq_homes_in_use", "homes", ["username"], unique=True, sqlite_where=_IN_USE, postgresql_where=_IN_USE
    )
