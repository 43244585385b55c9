"""What is done to running sessions, for pages and API alike: stopped, extended, let run for longer. All block."""

from nbgpu.core.errors import NotAllowed, NotExtended, UnknownSession
from nbgpu.core.idle_view import IdleView
from nbgpu.core.reasons import parse_reason
from nbgpu.core.texts import Text
from nbgpu.service.books import IdleBook, Stopper
from nbgpu.service.callers import Caller


def may_read(caller: Caller, view: IdleView) -> bool:
    """Whether somebody may see a session."""
    return caller.reads_all or is_own(caller, view)


def may_extend(caller: Caller, view: IdleView) -> bool:
    """Whether somebody may keep a session running."""
    return caller.operates or is_own(caller, view)


def may_stop(caller: Caller, view: IdleView) -> bool:
    """Whether somebody may stop a session's server; a server itself may not."""
    return caller.operates or (caller.server is None and is_own(caller, view))


def is_own(caller: Caller, view: IdleView) -> bool:
    """Whether it is a person's own session, or that of the server that asks."""
    if caller.server is not None:
        return caller.server == view.server
    return caller.is_user and caller.name == view.server.username


def find_running(idle: IdleBook, session_id: str) -> IdleView:
    """Return a session that runs. Raises UnknownSession."""
    view = idle.find(session_id)
    if view is None or view.ended_at is not None:
        raise UnknownSession(Text("This server does not run any more."))
    return view


def click(idle: IdleBook, view: IdleView, caller: Caller, seconds: int = 0) -> IdleView:
    """Keep a session running; 0 is for as long as one click gives. Raises NotExtended."""
    if view.policy is not None and not view.policy.extend and not caller.operates:
        raise NotExtended(Text("Nobody extends servers here themselves. Work in it, or ask an administrator."))
    return idle.extend(view.session_id, seconds, by=caller.name, as_admin=caller.operates)


def extend_limit(idle: IdleBook, view: IdleView, caller: Caller, seconds: int) -> IdleView:
    """Let a session run so much longer than its time limit. Raises NotAllowed, NotExtended."""
    if not caller.operates:
        raise NotAllowed(Text("Only those who run this place extend a time limit."))
    return idle.extend_time_limit(view.session_id, seconds, by=caller.name)


def stop(stopper: Stopper, view: IdleView, caller: Caller, reason: str) -> None:
    """Have the hub stop a session's server; one's own needs no reason.

    Raises NotAllowed, InvalidOptions, UnknownSession, HubError.
    """
    if not may_stop(caller, view):
        raise NotAllowed(Text("This is somebody else's server."))
    own = is_own(caller, view)
    stopper.stop(view, by=caller.name, reason="" if own and not reason.strip() else parse_reason(reason))
