"""Budgets, quotas and credits by the file: pasted or uploaded, looked at, and then all of it or nothing."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from nbgpu.core.errors import ChangedMeanwhile, InvalidOptions, Refusal
from nbgpu.core.import_rows import Mistake, decode_table
from nbgpu.core.policy_edits import PolicyKind
from nbgpu.core.texts import Text, mark
from nbgpu.core.units import render_money, render_price
from nbgpu.service.handler import needed
from nbgpu.service.pages.limits import LABELS, LimitsHandler
from nbgpu.service.policy_desk import PolicyPreview
from nbgpu.service.policy_import import CREDIT_FIELDS, CreditImport, read_policies, write_policies
from nbgpu.settings.edits import FIELDS

SHOWN = 100  # lines of a preview
TABLES = {"budgets": mark("Budgets"), "quotas": mark("Quotas"), "credits": mark("Credits")}
COLUMNS = {
    "budgets": FIELDS[PolicyKind.BUDGET],
    "quotas": FIELDS[PolicyKind.QUOTA],
    "credits": CREDIT_FIELDS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a file does, or what is wrong with it."""

    mistakes: Sequence[Mistake] = ()
    policies: PolicyPreview | None = None
    credits: CreditImport | None = None

    @property
    def does_something(self) -> bool:
        """Whether there is anything to confirm."""
        if self.mistakes:
            return False
        if self.policies is not None:
            return self.policies.count("keep") < len(self.policies.differences)
        return bool(self.credits and self.credits.charges)


class ImportPage(LimitsHandler):
    """A file that is pasted or uploaded."""

    @property
    def table(self) -> str:
        """Of what it is."""
        found = self.get_argument("kind", "budgets")
        return found if found in TABLES else "budgets"

    async def get(self) -> None:
        """Show the form."""
        self.show_import("")

    async def post(self) -> None:
        """Show what the file does, or do it."""
        text = ""
        try:
            text = self._read_text()
            if self.get_body_argument("step", "") == "confirm":
                await asyncio.to_thread(self._do, text)
                url = f"{self.frame.prefix}limits/import?kind={self.table}&done=1"
                self.redirect(url, status=HTTPStatus.SEE_OTHER)
            else:
                self.show_import(text, looked=await asyncio.to_thread(self._look, text))
        except ChangedMeanwhile as refusal:
            looked = await asyncio.to_thread(self._look, text)
            self.set_status(refusal.status_code)
            self.show_import(text, looked=looked, problem=refusal.text)
        except Refusal as refusal:
            self.set_status(refusal.status_code)
            self.show_import(text, problem=refusal.text)

    def show_import(self, text: str, *, looked: Looked | None = None, problem: object = None) -> None:
        """Answer with the page."""
        if looked is not None and looked.mistakes:
            self.set_status(HTTPStatus.BAD_REQUEST)
        self.show(
            "limits_import.html",
            table=self.table,
            tables=TABLES,
            columns=COLUMNS[self.table],
            text=text,
            looked=looked,
            problem=problem,
            done=self.get_query_argument("done", "") and self.request.method == "GET",
            with_new=self.get_body_argument("new", "") != "",
            shown=SHOWN,
            labels=LABELS,
            money=render_money,
            exact=render_price,
            currency=self.books.currency,
        )

    def _read_text(self) -> str:
        files = self.request.files.get("file", [])
        if files and files[0].body:
            return decode_table(files[0].body)
        text = self.get_body_argument("text", "", strip=False)
        return decode_table(text.encode())

    def _look(self, text: str) -> Looked:
        if self.table == "credits":
            found = self._read_credits(text)
            return Looked(mistakes=found.mistakes, credits=found)
        read = read_policies(self.desk, self.find_kind(self.table), text)
        if read.mistakes:
            return Looked(mistakes=read.mistakes)
        return Looked(policies=self.desk.preview(read.changes))

    def _read_credits(self, text: str) -> CreditImport:
        with_unknown = self.get_body_argument("new", "") != ""
        return needed(self.books.credits).read(text, by=self.caller.name, with_unknown=with_unknown)

    def _do(self, text: str) -> None:
        """Do it; what was right a moment ago may be no more."""
        if self.table == "credits":
            found = self._read_credits(text)
            _check(found.mistakes)
            needed(self.books.credits).give(found, by=self.caller.name)
            return
        read = read_policies(self.desk, self.find_kind(self.table), text)
        _check(read.mistakes)
        seen = self.get_body_argument("seen", "")
        if not seen.isdecimal() or len(seen) > 18:
            raise InvalidOptions(Text("Reload the page: you are not logged in, or the form is old."))
        self.desk.change(read.changes, by=self.caller.name, seen=int(seen))


class LimitsFile(LimitsHandler):
    """What was set, as a file that the import takes."""

    async def get(self) -> None:
        """Send it."""
        table = "quotas" if self.get_query_argument("kind", "") == "quotas" else "budgets"
        with await asyncio.to_thread(write_policies, self.desk, self.find_kind(table)) as file:
            self.set_header("Content-Type", "text/csv; charset=utf-8")
            self.set_header("Content-Disposition", f'attachment; filename="{table}.csv"')
            self.finish(file.read())


def _check(mistakes: Sequence[Mistake]) -> None:
    if mistakes:
        raise InvalidOptions(Text("Nothing is done: these lines are wrong."))
