"""How every list of the `nbgpu` command is printed: a table for people, JSON for scripts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len

if TYPE_CHECKING:
    from rich.table import Table

WHOLE = ("UUID", "Devices", "Session")  # columns of identifiers
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def print_json(value: Any) -> None:
    """Print JSON; instants as ISO 8601 texts."""
    typer.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str) -> None:
    """Print a table; where it is too wide for whole words, each row as a list. Without rows, the sentence `empty`."""
    from rich.console import Console

    if not rows:
        typer.echo(empty)
        return
    console = Console()
    fits = sum(_least_width(*each) for each in zip(columns, *rows, strict=True)) <= console.width
    for each in [_to_table(columns, rows)] if fits else _to_lists(columns, rows):
        console.print(each)


def _least_width(column: str, *cells: str) -> int:
    """Return the characters that a column needs for whole words, with the space beside it."""
    pieces = [piece for cell in cells for piece in (cell.splitlines() if column in WHOLE else cell.split())]
    return max(map(cell_len, [column, *pieces])) + 3


def _to_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        # What people copy or search for stays in one piece, and other columns give way.
        table.add_column(column, overflow="fold", no_wrap=column in WHOLE)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text: user names are not markup
    return table


def _to_lists(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> "Iterator[Table]":
    """Yield each row as a list of what it has, below each other."""
    from rich.table import Table
    from rich.text import Text

    for row in rows:
        found = Table.grid(padding=(0, 2))
        found.add_column()
        found.add_column(overflow="fold")
        for column, cell in zip(columns, row, strict=True):
            if cell:
                found.add_row(Text(column), Text(cell))
        found.add_row("", "")
        yield found


def show(value: object, unit: str = "") -> str:
    """Return a reading with its unit; "n/a" for what is not reported, which is never 0."""
    return "n/a" if value is None else f"{value}{unit}"


def to_plain(record: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a record with more keys, sets as sorted lists."""
    plain = {key: sorted(value) if isinstance(value, frozenset) else value for key, value in record.items()}
    return plain | more
