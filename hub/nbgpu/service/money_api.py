"""The API of money: prices, budgets and quotas as they stand, and the setting of new ones."""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from nbgpu.core.errors import ChangedMeanwhile
from nbgpu.core.periods import to_seconds
from nbgpu.core.plain import plain_account, plain_quota
from nbgpu.core.policy_edits import NEW, PolicyKind
from nbgpu.core.texts import Text
from nbgpu.service.handler import ApiHandler
from nbgpu.service.money_answers import (
    BudgetAnswer,
    BudgetsAnswer,
    PriceAnswer,
    PricesAnswer,
    QuotaAnswer,
    QuotasAnswer,
)
from nbgpu.service.operations import May, Operation, Parameter
from nbgpu.service.policy_answers import (
    ChangeAnswer,
    NewBudget,
    NewPrice,
    NewQuota,
    PriceChangeAnswer,
    answer_price,
    to_texts,
)
from nbgpu.service.policy_api import POLICY_HANDLERS, PREVIEW, PolicyHandler
from nbgpu.service.price_change import draft_price

WHOSE = Parameter(name="user", description="Whose; without it one's own, or all for who reads all.")


_TAKEN = {
    PolicyKind.BUDGET: Text("There is already a budget “%(name)s”: change it with PUT.").template,
    PolicyKind.QUOTA: Text("There is already a quota “%(name)s”: change it with PUT.").template,
}


class _AddHandler(PolicyHandler):
    """What adds a budget or quota."""

    async def add(self, kind: PolicyKind) -> None:
        """Add what was sent. Raises ChangedMeanwhile where there is one of its name."""
        change = self.desk.draft(kind, to_texts(self.body), expected=NEW)
        entries = await asyncio.to_thread(self.desk.entries, kind)
        if any(each.name == change.name for each in entries):
            raise ChangedMeanwhile(Text(_TAKEN[kind], name=change.name))
        await self.do([change])


class BudgetsHandler(_AddHandler):
    """Budgets as they stand: one's own, or all for who reads all."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Budgets as they stand: one's own, or all for who reads all.",
            answer=BudgetsAnswer,
            parameters=(WHOSE,),
            refusals=(404,),
        ),
        "POST": Operation(
            summary="Set a new budget.",
            answer=ChangeAnswer,
            may=May.BILL,
            body=NewBudget,
            parameters=(PREVIEW,),
            refusals=(409,),
        ),
    }

    async def get(self) -> None:
        """Answer with a list."""
        books, user = self.books, self.whose()
        if user is None:
            found = await asyncio.to_thread(books.limits.all_accounts)
        else:
            found = await asyncio.to_thread(books.limits.accounts, user, await self.groups_of(user))
        now = to_seconds(books.clock())
        budgets = [BudgetAnswer.model_validate(plain_account(account, now)) for account in found]
        self.answer(BudgetsAnswer(budgets=budgets))

    async def post(self) -> None:
        """Add one. Raises ChangedMeanwhile where there is one of its name."""
        await self.add(PolicyKind.BUDGET)


class QuotasHandler(_AddHandler):
    """A person's quotas as they stand."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="The limits that hold for a person.", answer=QuotasAnswer, parameters=(WHOSE,), refusals=(404,)
        ),
        "POST": Operation(
            summary="Set a new quota.",
            answer=ChangeAnswer,
            may=May.BILL,
            body=NewQuota,
            parameters=(PREVIEW,),
            refusals=(409,),
        ),
    }

    async def get(self) -> None:
        """Answer with a list."""
        user = self.whose() or self.caller.name
        found = await asyncio.to_thread(self.books.limits.quotas, user, await self.groups_of(user))
        quotas = [QuotaAnswer.model_validate(plain_quota(quota)) for quota in found]
        self.answer(QuotasAnswer(user=user, quotas=quotas))

    async def post(self) -> None:
        """Add one. Raises ChangedMeanwhile where there is one of its name."""
        await self.add(PolicyKind.QUOTA)


class PricesHandler(PolicyHandler):
    """What holds now."""

    caching = "private, no-cache"
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(summary="What an hour of each SKU costs now.", answer=PricesAnswer),
        "POST": Operation(
            summary="Set a price from now on, or from a time to come.",
            answer=PriceChangeAnswer,
            may=May.BILL,
            body=NewPrice,
            parameters=(PREVIEW,),
        ),
    }

    async def get(self) -> None:
        """Answer with a list."""
        sheet = await asyncio.to_thread(self.books.prices.sheet)
        found = sheet.current(to_seconds(self.books.clock()))
        self.answer(PricesAnswer(prices=[PriceAnswer.model_validate(price) for price in found]))

    async def post(self) -> None:
        """Set one."""
        body, books, only = self.body, self.books, self.flag("preview")
        change = await asyncio.to_thread(draft_price, books, body.sku_id, body.price, body.effective_from)
        if not only:
            await asyncio.to_thread(books.prices.add, [change.price], author=self.caller.name)
        self.answer(answer_price(change, done=not only))


MONEY_HANDLERS: dict[str, type[ApiHandler]] = {
    "budgets": BudgetsHandler,
    "quotas": QuotasHandler,
    "prices": PricesHandler,
    **POLICY_HANDLERS,
}
