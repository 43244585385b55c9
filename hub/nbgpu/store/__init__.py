"""The database: models, repositories and migrations (SQLite by default, PostgreSQL supported)."""

from nbgpu.store.database import open_database
from nbgpu.store.leases import SqlLeaseStore

__all__ = ["SqlLeaseStore", "open_database"]
