"""Idle servers, put together for one deployment: what the API reads, and what servers tell."""

from sqlalchemy import Engine

from nbgpu.core.activity import Report
from nbgpu.core.idle_policy import IdleSite
from nbgpu.store.idle import SqlIdle
from nbgpu.telemetry.idle import IdleWatch


class ServiceIdle(SqlIdle):
    """The service's `IdleBook`: the database, and the watch that takes reports."""

    def __init__(self, engine: Engine, site: IdleSite, watch: IdleWatch) -> None:
        super().__init__(engine, site)
        self._watch = watch

    def report(self, session_id: str, report: Report) -> None:
        """Take what a server tells of itself."""
        self._watch.report(session_id, report)
