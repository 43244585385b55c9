"""The forms of a budget or quota: looked at before it is done; where it can't be, what was typed is there again."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus

from nbgpu.core.errors import ChangedMeanwhile, Refusal, UnknownPolicy
from nbgpu.core.policy_edits import NEW, PolicyChange, PolicyEntry, PolicyKind
from nbgpu.core.units import render_money
from nbgpu.service.pages.limits import KINDS, LABELS, LimitsHandler
from nbgpu.service.policy_desk import removal
from nbgpu.settings.edits import FIELDS


class _Form(LimitsHandler):
    """A form in two steps: "preview" shows what it does, "confirm" does it; anything else is the form again."""

    path = ""
    done = "set"

    @property
    def kind(self) -> PolicyKind:
        """What it is about."""
        return self.find_kind(self.get_argument("kind", ""))

    @property
    def name(self) -> str:
        """Which one; "" is a new one."""
        return str(self.get_argument("name", ""))

    @property
    def revision(self) -> int:
        """The revision that its person has looked at."""
        text = self.get_body_argument("revision", "")
        return int(text) if text.isdecimal() and len(text) < 10 else NEW

    def build(self) -> PolicyChange:
        """Return what the form asks for. Raises InvalidOptions."""
        raise NotImplementedError

    async def post(self) -> None:
        """Show what it does, or do it; show the list then, so that a reload does nothing."""
        step = self.get_body_argument("step", "")
        try:
            change = self.build()
            if step == "confirm":
                count = await asyncio.to_thread(self.desk.change, [change], by=self.caller.name)
                done = self.done if count else "same"
                self.redirect(f"{self.frame.prefix}limits?done={done}", status=HTTPStatus.SEE_OTHER)
            elif step == "preview":
                await self.show_preview(change)
            else:
                await self.show_form(self.typed())
        except Refusal as refusal:
            self.set_status(refusal.status_code)
            await self.show_form(self.typed(), problem=refusal)

    def typed(self) -> dict[str, str]:
        """Return what was typed."""
        return {key: self.get_body_argument(key, "") for key in FIELDS[self.kind]}

    async def show_preview(self, change: PolicyChange) -> None:
        """Answer with what a change does."""
        preview = await asyncio.to_thread(self.desk.preview, [change])
        self.show(
            "limits_preview.html",
            kind=self.kind,
            title=KINDS[self.kind],
            path=self.path,
            difference=preview.differences[0],
            effect=preview.effect,
            typed=self.typed(),
            revision=self.revision,
            labels=LABELS,
            money=render_money,
            currency=self.books.currency,
        )

    async def show_form(self, typed: Mapping[str, str], *, problem: Refusal | None = None) -> None:
        """Answer with the form; where somebody else was faster, beside what is there now."""
        found = await asyncio.to_thread(self.find, typed.get("name", "")) if typed.get("name") else None
        changed = isinstance(problem, ChangedMeanwhile)
        looked_at = self.request.method == "POST" and not changed
        there = found.revision if found is not None else NEW
        self.show(
            "limits_edit.html",
            kind=self.kind,
            title=KINDS[self.kind],
            fields=FIELDS[self.kind],
            typed=typed,
            revision=self.revision if looked_at else there,
            theirs=found if changed else None,
            problem=problem.text if problem is not None else None,
            labels=LABELS,
            flavors=sorted(self.books.flavors),
            currency=self.books.currency,
        )

    def find(self, name: str) -> PolicyEntry | None:
        """Return what was set of a name; None for a new one. Blocks."""
        try:
            return self.desk.find(self.kind, name)
        except UnknownPolicy:
            return None


class LimitForm(_Form):
    """Sets one."""

    path = "edit"

    async def get(self) -> None:
        """Show the form."""
        if not self.name:
            await self.show_form({})
            return
        entry = await asyncio.to_thread(self.desk.find, self.kind, self.name)
        await self.show_form(entry.fields)

    def build(self) -> PolicyChange:
        """Return what was typed."""
        return self.desk.draft(self.kind, self.typed(), expected=self.revision)


class RemoveForm(_Form):
    """Removes one."""

    path = "remove"
    done = "removed"

    async def get(self) -> None:
        """Show the list: somebody has reloaded the answer to a form."""
        self.redirect(f"{self.frame.prefix}limits")

    def build(self) -> PolicyChange:
        """Return its end."""
        return removal(self.kind, self.name, expected=self.revision)

    async def show_form(self, typed: Mapping[str, str], *, problem: Refusal | None = None) -> None:
        """Answer with the form of what is there now: nothing was typed."""
        found = await asyncio.to_thread(self.find, self.name)
        await super().show_form(found.fields if found is not None else typed, problem=problem)
