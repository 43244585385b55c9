"""An index for the newest session of a server, which every home page asks for."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the index."""
    op.create_index("ix_sessions_newest", "sessions", ["username", "servername", "created_at"])
