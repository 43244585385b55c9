"""The database: models, repositories and migrations (SQLite by default, PostgreSQL supported)."""

from nbgpu.store.audit import SqlAuditLog
from nbgpu.store.database import open_database
from nbgpu.store.leases import SqlLeaseStore

__all__ = ["SqlAuditLog", "SqlLeaseStore", "open_database"]
