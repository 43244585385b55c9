"""The audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("recorded_at", sa.DateTime, nullable=False, index=True),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("subject", sa.String(512), nullable=False),
        sa.Column("detail", sa.String(1000), nullable=False),
    )
