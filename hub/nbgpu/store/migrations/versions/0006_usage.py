"""What sessions made of what they hold, and devices that are not leased for a fault."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_OPEN = sa.text("returned_at IS NULL")


def upgrade() -> None:
    """Make the tables."""
    for name, summed in (("usage_minutes", []), ("usage_hours", ["busy_ms"])):
        op.create_table(
            name,
            sa.Column("session_id", sa.String(36), sa.ForeignKey("sessions.session_id"), primary_key=True),
            sa.Column("device_uuid", sa.String(96), primary_key=True),
            sa.Column("starts_at", sa.BigInteger, primary_key=True, autoincrement=False),
            sa.Column("run", sa.String(12), primary_key=True),
            sa.Column("sampled_ms", sa.BigInteger, nullable=False),
            sa.Column("busy_ms", sa.BigInteger),
            sa.Column("gpu_memory_peak", sa.BigInteger),
            sa.Column("gpu_memory_mib_s", sa.BigInteger),
            sa.Column("cpu_ms", sa.BigInteger),
            sa.Column("ram_mib_s", sa.BigInteger),
            sqlite_with_rowid=False,
        )
        op.create_index(f"ix_{name}_starts_at", name, ["starts_at", *summed])
    op.create_table(
        "quarantines",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("device_uuid", sa.String(96), nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("cause", sa.String(500), nullable=False),
        sa.Column("since", sa.DateTime, nullable=False),
        sa.Column("last_good_at", sa.DateTime),
        sa.Column("returned_at", sa.DateTime),
        sa.Column("returned_by", sa.String(255)),
    )
    op.create_index(
        "uq_quarantines_open", "quarantines", ["device_uuid"], unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN
    )
    op.create_table(
        "device_marks",
        sa.Column("device_uuid", sa.String(96), primary_key=True),
        sa.Column("last_good_at", sa.DateTime),
        sa.Column("ecc_uncorrected", sa.BigInteger),
    )
