"""The audit log as the API answers it."""

from nbgpu.service.operations import Answer, Instant


class AuditRowAnswer(Answer):
    """One row; a later one has a higher number."""

    number: int
    recorded_at: Instant
    actor: str
    action: str
    subject: str
    detail: str


class AuditAnswer(Answer):
    """A page of rows, newest first; `next` is the cursor of the page after it."""

    rows: list[AuditRowAnswer]
    next: str | None
