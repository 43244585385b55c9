"""What somebody looks for in the audit log, for the page and the API alike."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from nbgpu.core.audit import AuditQuestion
from nbgpu.core.errors import InvalidOptions
from nbgpu.core.statement_form import find_zone
from nbgpu.core.texts import Text

LONGEST = 255  # characters of what is looked for


def parse_audit_question(text: Callable[[str], str | None], timezone: str) -> AuditQuestion:
    """Return what a request's parameters, which `text` gives, look for; days are those of a zone.

    Blocks: a zone is a file. Raises InvalidOptions.
    """
    since, before = parse_days(text, timezone)
    return AuditQuestion(
        actor=(text("actor") or "")[:LONGEST],
        action=(text("action") or "")[:LONGEST],
        subject=(text("subject") or "")[:LONGEST],
        since=since,
        before=before,
    )


def parse_days(text: Callable[[str], str | None], timezone: str) -> tuple[datetime | None, datetime | None]:
    """Return the instants between which the days `from` to `to` lie; None is open. Blocks. Raises InvalidOptions."""
    zone, first, last = find_zone(timezone), parse_day(text("from") or ""), parse_day(text("to") or "")
    return (
        _midnight(first, zone) if first is not None else None,
        _midnight(last + timedelta(days=1), zone) if last is not None else None,
    )


def parse_day(text: str) -> date | None:
    """Return a day like "2026-11-30"; None without one. Raises InvalidOptions."""
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    if not 1970 <= day.year < 9999:
        raise InvalidOptions(Text("“%(day)s” is no day: write it like 2026-11-30.", day=text[:40]))
    return day


def _midnight(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)
