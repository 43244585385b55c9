"""The database: models, repositories and migrations (SQLite by default, PostgreSQL supported)."""
