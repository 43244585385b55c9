"""Alerts of budgets: each threshold of each budget and period is told once."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "alerts",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("budget", sa.String(40), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("period_start", sa.BigInteger, nullable=False),
        sa.Column("percent", sa.Integer, nullable=False),
        sa.Column("spent", sa.BigInteger, nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("forecast", sa.BigInteger),
        sa.Column("raised_at", sa.DateTime, nullable=False),
        sa.Column("sent_at", sa.DateTime),
        sa.UniqueConstraint("budget", "owner", "period_start", "percent", "amount"),
    )
