"""How every list of the `nbgpu` command is printed: a table for people, JSON for scripts."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

WHOLE = ("UUID", "Devices", "Session")  # columns of identifiers
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def print_json(value: Any) -> None:
    """Print JSON; instants as ISO 8601 texts."""
    typer.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str) -> None:
    """Print a table that keeps long cells whole by folding them; without rows, the sentence `empty`."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        typer.echo(empty)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        # What people copy or search for stays in one piece, and other columns give way.
        table.add_column(column, overflow="fold", no_wrap=column in WHOLE)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text: user names are not markup
    Console().print(table)


def show(value: object, unit: str = "") -> str:
    """Return a reading with its unit; "n/a" for what is not reported, which is never 0."""
    return "n/a" if value is None else f"{value}{unit}"


def to_plain(record: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a record with more keys, sets as sorted lists."""
    plain = {key: sorted(value) if isinstance(value, frozenset) else value for key, value in record.items()}
    return plain | more
