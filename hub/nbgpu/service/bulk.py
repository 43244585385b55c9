"""Something done to many sessions, each once: what is planned is shown first, then begun, and told of one by one.

Plans are kept in memory for whoever made them: what has begun is in the audit log, row by row, also after a restart.
"""

import logging
import queue
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nbgpu.core.errors import NbgpuError, UnknownSession
from nbgpu.core.idle_view import IdleView
from nbgpu.core.texts import Text

MOST = 5000  # sessions of one plan
KEPT = 50  # plans
AT_ONCE = 8  # sessions that something is done to at one time

Do = Callable[[IdleView], Text]  # returns what was done, or raises an error of ours

log = logging.getLogger("nbgpu.service")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one session."""

    ok: bool
    text: object  # a Text, or a sentence


@dataclass(slots=True)
class Plan:
    """What is to be done to whom; `results` by session, as they come in once it has begun."""

    number: str  # nobody guesses it
    by: str
    title: Text
    reason: str
    views: Sequence[IdleView]
    do: Do
    results: dict[str, Result] = field(default_factory=dict)
    has_begun: bool = False
    over: threading.Event = field(default_factory=threading.Event)


class Bulk:
    """The plans of a service."""

    def __init__(self, *, kept: int = KEPT, at_once: int = AT_ONCE) -> None:
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        self._lock = threading.Lock()
        self._kept = kept
        self._at_once = at_once

    def plan(self, title: Text, views: Sequence[IdleView], do: Do, *, by: str, reason: str = "") -> Plan:
        """Keep a plan; the oldest goes where there are too many."""
        made = Plan(number=secrets.token_urlsafe(12), by=by, title=title, reason=reason, views=views, do=do)
        with self._lock:
            self._plans[made.number] = made
            while len(self._plans) > self._kept:
                self._plans.popitem(last=False)
        return made

    def find(self, number: str, *, by: str) -> Plan | None:
        """Return a plan of somebody's own."""
        with self._lock:
            found = self._plans.get(number)
        return found if found is not None and found.by == by else None

    def begin(self, plan: Plan) -> None:
        """Begin a plan in the background; one that has begun goes on as it is."""
        with self._lock:
            if plan.has_begun:
                return
            plan.has_begun = True
        waiting: queue.SimpleQueue[IdleView] = queue.SimpleQueue()
        for view in plan.views:
            waiting.put(view)
        if not plan.views:
            plan.over.set()
        for number in range(min(self._at_once, len(plan.views))):
            threading.Thread(target=_work, args=(plan, waiting), name=f"nbgpu-bulk-{number}", daemon=True).start()


def _work(plan: Plan, waiting: "queue.SimpleQueue[IdleView]") -> None:
    while True:
        try:
            view = waiting.get_nowait()
        except queue.Empty:
            return
        plan.results[view.session_id] = _do_one(plan.do, view)
        if len(plan.results) == len(plan.views):
            plan.over.set()


def _do_one(do: Do, view: IdleView) -> Result:
    try:
        return Result(ok=True, text=do(view))
    except UnknownSession:
        return Result(ok=False, text=Text("It had ended already."))
    except NbgpuError as error:
        return Result(ok=False, text=error.text)
    except Exception:
        log.exception("Something failed for the session %s", view.session_id)
        return Result(ok=False, text=Text("It failed for a reason that is in the service's log."))
