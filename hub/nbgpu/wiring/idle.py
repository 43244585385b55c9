"""Idle servers, put together for one deployment: what the API reads, and what servers tell."""

from collections.abc import Sequence
from dataclasses import dataclass

from nbgpu.core.activity import Report
from nbgpu.core.idle_view import IdleView
from nbgpu.core.leases import ServerRef
from nbgpu.store.idle import SqlIdle
from nbgpu.telemetry.idle import IdleWatch


@dataclass(frozen=True, slots=True)
class ServiceIdle:
    """The service's `IdleBook`: the database, and the watch that takes reports."""

    store: SqlIdle
    watch: IdleWatch

    def running(self, username: str | None) -> Sequence[IdleView]:
        """Return a user's sessions that run; everybody's where it is None."""
        return self.store.running(username)

    def find(self, session_id: str) -> IdleView | None:
        """Return a session, running or ended."""
        return self.store.find(session_id)

    def newest(self, server: ServerRef) -> IdleView | None:
        """Return a server's newest session, running or ended."""
        return self.store.newest(server)

    def report(self, session_id: str, report: Report) -> None:
        """Take what a server tells of itself."""
        self.watch.report(session_id, report)

    def extend(self, session_id: str, seconds: int, *, by: str, as_admin: bool) -> IdleView:
        """Have a session not stopped for being idle for longer. Raises NotExtended."""
        return self.store.extend(session_id, seconds, by=by, as_admin=as_admin)

    def extend_time_limit(self, session_id: str, seconds: int, *, by: str) -> IdleView:
        """Have a session run past its time limit. Raises NotExtended where it has none."""
        return self.store.extend_time_limit(session_id, seconds, by=by)
