"""The store's own clock, where nobody gives it another."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the present instant."""
    return datetime.now(UTC)
