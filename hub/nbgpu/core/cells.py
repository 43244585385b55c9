"""Cells of a CSV file that others open in a spreadsheet. Pure."""

from decimal import Decimal

Cell = str | int | Decimal | None
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for the begin of a formula


def render_cell(value: Cell) -> str:
    """Return what stands in the file: a text never begins a formula, None is empty, a number is a plain decimal."""
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
