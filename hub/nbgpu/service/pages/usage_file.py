"""Usage as a file, for who is logged in: the same as the API gives."""

from nbgpu.service.pages.usage_request import UsageHandler
from nbgpu.service.statement_answers import answer_statement, parse_dimensions


class UsageFile(UsageHandler):
    """The same as a file: what the API gives, for who is logged in."""

    async def get(self) -> None:
        """Send it."""
        kind = self.text("format") or "csv"
        asked = await self.ask(parse_dimensions(self.get_query_arguments("by")))
        if kind == "json":
            name = f"usage-{asked.question.first_day}.json"
            self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        await answer_statement(self, self.books, asked, kind=kind, turn=self.turn)

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """Answer with a page, which is no file."""
        self.clear_header("Content-Disposition")
        self.set_header("Content-Type", "text/html; charset=UTF-8")
        super().write_error(status_code, **kwargs)
