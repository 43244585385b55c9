"""Stops a server on somebody's word, and keeps why: for its person, and in the audit log."""

from typing import Protocol

from nbgpu.core.errors import HubError, HubRefused, UnknownSession
from nbgpu.core.idle_view import IdleView
from nbgpu.core.leases import ServerRef
from nbgpu.core.ports import AuditLog
from nbgpu.core.reconcile import HubServer
from nbgpu.core.stops import STOPPED_BY_ADMIN
from nbgpu.core.texts import Text


class StoppingHub(Protocol):
    """The hub, as far as it stops servers."""

    def find(self, server: ServerRef) -> HubServer | None:
        """Return one server if it runs or is pending. Raises HubUnavailable."""

    def stop(self, server: ServerRef) -> None:
        """Have a server stopped. Raises HubUnavailable, HubRefused."""


class Reasons(Protocol):
    """Why sessions end."""

    def note_reason(self, session_id: str, reason: str | None) -> None:
        """Note why a session is about to end; None takes the note back."""


class ServerStopper:
    """Each call blocks for as long as the hub takes."""

    def __init__(self, hub: StoppingHub, reasons: Reasons, audit: AuditLog) -> None:
        self._hub = hub
        self._reasons = reasons
        self._audit = audit

    def stop(self, view: IdleView, *, by: str, reason: str) -> None:
        """Have the hub stop a session's server. Raises HubError; UnknownSession where it runs no more; StoreError.

        Who stops their own tells themselves no reason.

        Nothing is stopped without a row in the audit log, so that it is written before; another tells of a failure.
        """
        running = self._hub.find(view.server)
        if running is None or running.session_id not in (None, view.session_id):
            raise UnknownSession(Text("This server does not run any more."))
        is_own = by == view.server.username
        self._record(view, "server.stop", by=by, detail=reason or "on request")
        if not is_own:
            self._reasons.note_reason(view.session_id, STOPPED_BY_ADMIN + reason)
        try:
            self._hub.stop(view.server)
        except HubError as error:
            self._record(view, "server.stop-failed", by=by, detail=str(error))
            if isinstance(error, HubRefused) and not is_own:  # without an answer it may still be stopped
                self._reasons.note_reason(view.session_id, None)
            raise

    def _record(self, view: IdleView, action: str, *, by: str, detail: str) -> None:
        self._audit.record(actor=by, action=action, subject=str(view.server), detail=f"{detail} ({view.session_id})")
