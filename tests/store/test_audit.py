"""The audit log as it is read: what is looked for, page by page."""

from datetime import UTC, datetime, timedelta

import pytest

from nbgpu.core.audit import AuditQuestion
from nbgpu.store import SqlAuditLog

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def audit(engine) -> SqlAuditLog:
    """Four rows, an hour apart."""
    times = iter(NOON + number * HOUR for number in range(4))
    log = SqlAuditLog(engine, lambda: next(times))
    for actor, action, subject in (
        ("root", "gpu.cordon", "GPU-1"),
        ("sampler", "gpu.return", "GPU-1"),
        ("Ann_1", "idle.extend", "ann"),
        ("root", "server.stop", "100%"),
    ):
        log.record(actor=actor, action=action, subject=subject, detail="why")
    return log


@pytest.mark.parametrize(
    ("question", "found"),
    [
        (AuditQuestion(), ["server.stop", "idle.extend", "gpu.return", "gpu.cordon"]),
        (AuditQuestion(actor="ROOT"), ["server.stop", "gpu.cordon"]),
        (AuditQuestion(actor="n_"), ["idle.extend"]),
        (AuditQuestion(action="gpu."), ["gpu.return", "gpu.cordon"]),
        (AuditQuestion(action="return"), []),
        (AuditQuestion(subject="%"), ["server.stop"]),
        (AuditQuestion(since=NOON + HOUR, before=NOON + 2 * HOUR), ["gpu.return"]),
        (AuditQuestion(actor="root", subject="gpu", before=NOON), []),
    ],
)
def test_what_is_looked_for_is_found_newest_first(audit, question, found):
    assert [row.action for row in audit.find(question, count=10)] == found


def test_pages_follow_each_other(audit):
    first = audit.find(AuditQuestion(), count=3)
    second = audit.find(AuditQuestion(), count=3, below=first[-1].number)
    assert [row.action for row in second] == ["gpu.cordon"]
    assert audit.latest(2) == first[:2]
