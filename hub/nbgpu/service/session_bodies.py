"""What may be sent about a session."""

from pydantic import Field

from nbgpu.core.activity import Report
from nbgpu.service.operations import Body

_MOST = 100_000  # of anything that is counted in one server
_LONGEST = 400 * 24 * 3600  # seconds
_LONGEST_REASON = 2000  # characters that are read; fewer are kept


class ReportBody(Body):
    """What a server tells of itself."""

    kernels: int = Field(ge=0, le=_MOST)
    kernels_busy: int = Field(ge=0, le=_MOST)
    terminals: int = Field(ge=0, le=_MOST)
    terminal_jobs: int = Field(ge=0, le=_MOST)
    person_s_ago: float | None = Field(ge=0, le=_LONGEST)
    sockets: int = Field(ge=0, le=_MOST)

    def to_report(self) -> Report:
        """Return it as the rules take it."""
        return Report(
            kernels=self.kernels,
            kernels_busy=self.kernels_busy,
            terminals=self.terminals,
            terminal_jobs=self.terminal_jobs,
            person_ago=self.person_s_ago,
            sockets=self.sockets,
        )


class ExtensionBody(Body):
    """For how long; without it as long as one click gives."""

    seconds: int | None = Field(None, ge=60, le=_LONGEST)


class LimitBody(Body):
    """How much longer than its time limit."""

    seconds: int = Field(ge=60, le=_LONGEST)


class StopBody(Body):
    """Why; for one's own server it may be empty."""

    reason: str = Field(max_length=_LONGEST_REASON)
