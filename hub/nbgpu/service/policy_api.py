"""The API that sets quotas and budgets: one by one, and many by a CSV file; each can be looked at before it is done."""

import asyncio
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import ClassVar

from tornado.web import HTTPError

from nbgpu.core.errors import ChangedMeanwhile, InvalidOptions, UnknownPolicy
from nbgpu.core.import_rows import decode_table
from nbgpu.core.policy_edits import PolicyChange, PolicyEntry, PolicyKind
from nbgpu.service.handler import ApiHandler, needed
from nbgpu.service.operations import May, Operation, Parameter
from nbgpu.service.policy_answers import (
    BudgetBody,
    ChangeAnswer,
    CreditsAnswer,
    PoliciesAnswer,
    PolicyAnswer,
    QuotaBody,
    answer_change,
    answer_credits,
    answer_policy,
    to_texts,
)
from nbgpu.service.policy_desk import PolicyDesk, removal
from nbgpu.service.policy_import import explain_mistakes, read_policies, write_policies

FLAG = {"type": "string", "enum": ["true", "false"], "default": "false"}
PREVIEW = Parameter(name="preview", description="“true”: tell what would be done, and do nothing.", schema=FLAG)
KINDS: Mapping[str, PolicyKind] = {"budgets": PolicyKind.BUDGET, "quotas": PolicyKind.QUOTA}
_MATCH = (HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED)


class PolicyHandler(ApiHandler):
    """What all that sets policies has in common."""

    @property
    def desk(self) -> PolicyDesk:
        """Quotas and budgets. 503 while the service begins."""
        return needed(self.books.policies)

    def flag(self, name: str) -> bool:
        """Return whether a parameter says yes. Raises InvalidOptions for what is neither yes nor no."""
        text = self.text(name) or "false"
        if text not in FLAG["enum"]:
            raise InvalidOptions(f"{name} “{text[:40]}” is neither true nor false.")
        return text == "true"

    async def do(self, changes: Sequence[PolicyChange]) -> None:
        """Do changes, or tell what they would do, and answer with it."""
        only = self.flag("preview")
        preview = await asyncio.to_thread(self.desk.preview, changes)
        if not only:
            await asyncio.to_thread(self.desk.change, changes, by=self.caller.name)
        self.answer(answer_change(preview, done=not only))


class PoliciesHandler(PolicyHandler):
    """Quotas and budgets as they were set."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Quotas and budgets as they were set: those of nbgpu.toml, and those set since.",
            answer=PoliciesAnswer,
            may=May.BILL,
        )
    }

    async def get(self) -> None:
        """Answer with a list."""
        found = [each for kind in PolicyKind for each in await asyncio.to_thread(self.desk.entries, kind)]
        self.answer(PoliciesAnswer(policies=[answer_policy(each) for each in found]))


class _OneHandler(PolicyHandler):
    """One quota or budget."""

    kind: ClassVar[PolicyKind]

    async def find(self, name: str) -> PolicyEntry:
        """Return what was set. Raises UnknownPolicy."""
        return await asyncio.to_thread(self.desk.find, self.kind, name)

    async def get(self, name: str) -> None:
        """Answer with it; its ETag is what a change of it sends as If-Match."""
        self.answer(answer_policy(await self.find(name)))

    async def put(self, name: str) -> None:
        """Set it: one that is there by its ETag, one that is not there without."""
        expected = await self._check(name)
        change = self.desk.draft(self.kind, to_texts(self.body, name=name), expected=expected)
        await self.do_one(change)

    async def delete(self, name: str) -> None:
        """Remove it."""
        entry = await self.find(name)
        self.check_match(answer_policy(entry))
        await self.do_one(removal(self.kind, name, expected=entry.revision))

    async def do_one(self, change: PolicyChange) -> None:
        """Do it. 412 where somebody else was faster between the look at it and this."""
        try:
            await self.do([change])
        except ChangedMeanwhile as error:
            raise HTTPError(HTTPStatus.PRECONDITION_FAILED, reason=str(error)) from None

    async def _check(self, name: str) -> int:
        try:
            entry = await self.find(name)
        except UnknownPolicy:
            if "If-Match" in self.request.headers:
                raise
            return 0
        self.check_match(answer_policy(entry))
        return entry.revision


def _one(kind: PolicyKind, body: type[BudgetBody] | type[QuotaBody]) -> Mapping[str, Operation]:
    return {
        "GET": Operation(
            summary=f"A {kind} as it was set.", answer=PolicyAnswer, may=May.BILL, refusals=(HTTPStatus.NOT_FOUND,)
        ),
        "PUT": Operation(
            summary=f"Set a {kind}: one that is there with If-Match.",
            answer=ChangeAnswer,
            may=May.BILL,
            body=body,
            parameters=(PREVIEW,),
            refusals=_MATCH,
        ),
        "DELETE": Operation(
            summary=f"Remove a {kind}; with If-Match.",
            answer=ChangeAnswer,
            may=May.BILL,
            parameters=(PREVIEW,),
            refusals=_MATCH,
        ),
    }


class BudgetHandler(_OneHandler):
    """One budget."""

    kind = PolicyKind.BUDGET
    operations: ClassVar[Mapping[str, Operation]] = _one(PolicyKind.BUDGET, BudgetBody)


class QuotaHandler(_OneHandler):
    """One quota."""

    kind = PolicyKind.QUOTA
    operations: ClassVar[Mapping[str, Operation]] = _one(PolicyKind.QUOTA, QuotaBody)


class ImportHandler(PolicyHandler):
    """Many quotas or budgets of a CSV file; GET gives the file of those that were set."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="What was set, as a CSV file that can be sent back.",
            answer=None,
            may=May.BILL,
            media=("text/csv",),
        ),
        "POST": Operation(
            summary="Set all of a CSV file, or nothing where a line is wrong; twice the same does nothing twice.",
            answer=ChangeAnswer,
            may=May.BILL,
            parameters=(PREVIEW,),
            upload="text/csv",
            refusals=(HTTPStatus.CONFLICT,),
        ),
    }

    async def get(self, kind: str) -> None:
        """Answer with the file."""
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.set_header("Content-Disposition", f'attachment; filename="{kind}.csv"')
        with await asyncio.to_thread(write_policies, self.desk, KINDS[kind]) as file:
            self.write(file.read())

    async def post(self, kind: str) -> None:
        """Do it."""
        text = decode_table(self.request.body)
        found = await asyncio.to_thread(read_policies, self.desk, KINDS[kind], text)
        if found.mistakes:
            raise InvalidOptions(explain_mistakes(found.mistakes))
        await self.do(found.changes)


class CreditsHandler(PolicyHandler):
    """Credits to many people of a CSV file."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "POST": Operation(
            summary="Give all credits of a CSV file, or none where a line is wrong; none is given twice.",
            answer=CreditsAnswer,
            may=May.BILL,
            parameters=(
                PREVIEW,
                Parameter(name="new", description="“true”: to people who never had a server, too.", schema=FLAG),
            ),
            upload="text/csv",
        )
    }

    async def post(self) -> None:
        """Give them."""
        desk, only = needed(self.books.credits), self.flag("preview")
        text, by, new = decode_table(self.request.body), self.caller.name, self.flag("new")
        found = await asyncio.to_thread(desk.read, text, by=by, with_unknown=new)
        if found.mistakes:
            raise InvalidOptions(explain_mistakes(found.mistakes))
        if not only:
            found = await asyncio.to_thread(desk.give, found, by=by)
        self.answer(answer_credits(found, desk.currency, done=not only))


POLICY_HANDLERS: dict[str, type[ApiHandler]] = {
    "policies": PoliciesHandler,
    "budgets/(?P<name>[a-z0-9.-]{1,40})": BudgetHandler,
    "quotas/(?P<name>[a-z0-9.-]{1,40})": QuotaHandler,
    "import/(?P<kind>budgets|quotas)": ImportHandler,
    "import/credits": CreditsHandler,
}
