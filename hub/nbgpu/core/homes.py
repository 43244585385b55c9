"""Homes: the volume that a user's files live on, and what becomes of it when the user is deleted."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class OnDelete(StrEnum):
    """What becomes of the home of a user that an admin deletes."""

    ARCHIVE = "archive"  # kept, and never given to the next person of that name
    KEEP = "keep"  # given back to whoever has the name next: for accounts that come and go with one person
    WIPE = "wipe"  # deleted


@dataclass(frozen=True, slots=True)
class Home:
    """One home."""

    username: str
    volume: str
    created_at: datetime
    archived_at: datetime | None = None
