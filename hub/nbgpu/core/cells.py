"""Cells of a CSV file that others open in a spreadsheet. Pure."""

import re
from decimal import Decimal

Cell = str | int | Decimal | None
# What a spreadsheet takes for the begin of a formula, and what it may drop before it looks: spaces, control characters
# and marks that nobody sees. The wide forms are folded to plain ones by some.
_FORMULA = re.compile(r"[\s\x00-\x1f\x7f\u200b-\u200f\u2060\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n\x00]")


def begins_formula(text: str) -> bool:
    """Whether a spreadsheet would take a text for a formula."""
    return _FORMULA.match(text) is not None


def render_cell(value: Cell) -> str:
    """Return what stands in the file: a text never begins a formula, None is empty, a number is a plain decimal."""
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if begins_formula(value) else value
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
