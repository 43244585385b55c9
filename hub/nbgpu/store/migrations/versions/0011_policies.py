"""Quotas and budgets that are set while the site runs."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "policies",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("fields", sa.JSON),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("changed_at", sa.DateTime, nullable=False),
        sa.UniqueConstraint("kind", "name", name="uq_policies_name"),
    )
    op.create_index("ix_policies_revision", "policies", ["revision"])
