"""The audit log as it is read: its rows, and what somebody looks for in it. Pure."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One row of the log."""

    recorded_at: datetime
    actor: str
    action: str
    subject: str
    detail: str
    number: int  # a later row has a higher one


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuestion:
    """Which rows somebody looks for; what is empty or None is not asked for."""

    actor: str = ""  # a part of it, in any case
    action: str = ""  # how it begins, like "gpu."
    subject: str = ""  # a part of it, in any case
    since: datetime | None = None
    before: datetime | None = None  # exclusive
