"""The database: models, repositories and migrations (SQLite by default, PostgreSQL supported)."""

from nbgpu.store.audit import SqlAuditLog
from nbgpu.store.database import open_database
from nbgpu.store.homes import SqlHomes
from nbgpu.store.leases import SqlLeaseStore
from nbgpu.store.lock import HubLock, hold_hub_lock

__all__ = ["HubLock", "SqlAuditLog", "SqlHomes", "SqlLeaseStore", "hold_hub_lock", "open_database"]
