"""Something done to many sessions at once: a preview of what happens to whom, a click, and what became of each."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from nbgpu.core.errors import InvalidOptions, UnknownSession
from nbgpu.core.idle_view import IdleView
from nbgpu.core.texts import Text
from nbgpu.service.audit_question import LONGEST
from nbgpu.service.bulk import MOST, Bulk, Plan
from nbgpu.service.handler import needed
from nbgpu.service.pages.base import Frame, OperatorPage
from nbgpu.service.pages.session_acts import parse_act
from nbgpu.service.pages.sessions import SessionsFile, SessionsPage, all_running


class PlanForm(SessionsPage):
    """The form below the table: what is to be done, to those that are ticked or to all that match."""

    def initialize(self, frame: Frame, bulk: Bulk) -> None:  # type: ignore[override]  # Tornado's way
        """Take the plans, too."""
        super().initialize(frame)
        self._bulk = bulk

    async def get(self) -> None:
        """Show the sessions: somebody has reloaded the answer to a form."""
        self.redirect(f"{self.frame.prefix}sessions")

    async def post(self) -> None:
        """Keep the plan and show it; nothing is done yet."""
        try:
            plan = await asyncio.to_thread(self._plan)
        except InvalidOptions as refusal:
            self.set_status(refusal.status_code)
            await self.show_sessions(self._field, problem=refusal.text)
            return
        self.redirect(f"{self.frame.prefix}sessions/plan/{plan.number}", status=HTTPStatus.SEE_OTHER)

    def _plan(self) -> Plan:
        chosen = parse_act(self._field, self.books, self.caller)
        views = self._find_all() if self.get_body_argument("all", "") else self._find_ticked()
        if not views:
            raise InvalidOptions(Text("Tick the servers that it is to be done to; only those that run can be."))
        return self._bulk.plan(chosen.title, views, chosen.do, by=self.caller.name, reason=chosen.reason)

    def _find_ticked(self) -> list[IdleView]:
        found = (self.idle.find(each) for each in dict.fromkeys(self.get_body_arguments("session")))
        return [view for view in found if view is not None and view.ended_at is None]

    def _find_all(self) -> list[IdleView]:
        question = all_running(self.parse_question(self._field))
        page = needed(self.books.sessions).find(question, count=MOST)
        if page.is_more:
            raise InvalidOptions(
                Text(
                    "%(total)s servers match, and %(most)s at most are done at once: filter for less.",
                    total=page.total,
                    most=MOST,
                )
            )
        return [row.view for row in page.rows]

    def _field(self, name: str) -> str:
        return self.get_body_argument(name, "").strip()[:LONGEST]


class PlanPage(OperatorPage):
    """A plan: what it does to whom; once it has begun, what became of each."""

    def initialize(self, frame: Frame, bulk: Bulk) -> None:  # type: ignore[override]  # Tornado's way
        """Take the plans, too."""
        super().initialize(frame)
        self._bulk = bulk

    async def get(self, number: str) -> None:
        """Show it."""
        plan = self._find(number)
        results = dict(plan.results)
        self.show(
            "session_plan.html",
            plan=plan,
            results=results,
            done=len(results),
            failed=sum(not each.ok for each in results.values()),
            is_over=plan.over.is_set(),
        )

    async def post(self, number: str) -> None:
        """Begin it, once however often it is asked for; show it again."""
        plan = self._find(number)
        self._bulk.begin(plan)
        self.redirect(f"{self.frame.prefix}sessions/plan/{plan.number}", status=HTTPStatus.SEE_OTHER)

    def _find(self, number: str) -> Plan:
        found = self._bulk.find(number, by=self.caller.name)
        if found is None:
            raise UnknownSession(Text("This plan is not kept any more. What was done is in the audit log; begin anew."))
        return found


def session_routes(prefix: str, parts: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the routes under a path like "/services/nbgpu/"; `parts` is what all pages take."""
    mine = {**parts, "bulk": Bulk()}
    return [
        (rf"{prefix}sessions", SessionsPage, parts),
        (rf"{prefix}sessions/file", SessionsFile, parts),
        (rf"{prefix}sessions/plan", PlanForm, mine),
        (rf"{prefix}sessions/plan/([\w-]+)", PlanPage, mine),
    ]
