"""What servers received and sent, beside what they spent and held."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the columns; the spans before have none: not reported."""
    for table in ("usage_minutes", "usage_hours"):
        op.add_column(table, sa.Column("network_bytes", sa.BigInteger))
