"""What a check of the doctor finds. Pure."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"  # works, but look at it
    FAIL = "fail"  # servers won't start, or something can be lost


@dataclass(frozen=True, slots=True)
class Finding:
    """One result: what was found, and what to do where it is not well."""

    level: Level
    found: str
    advice: str = ""
    subject: str = ""

    def about(self, subject: str) -> "Finding":
        """Return the finding with its subject."""
        return replace(self, subject=subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All findings of one look at everything."""

    findings: tuple[Finding, ...] = ()
    at: datetime | None = None  # when it was done; None: none was yet
    problem: str | None = None  # why nothing was found out
    is_running: bool = False  # the next is under way


def ok(found: str) -> Finding:
    """All is well."""
    return Finding(Level.OK, found)


def warn(found: str, advice: str) -> Finding:
    """It works, but somebody should look at it."""
    return Finding(Level.WARN, found, advice)


def fail(found: str, advice: str) -> Finding:
    """It does not work."""
    return Finding(Level.FAIL, found, advice)
