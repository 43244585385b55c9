"""Tables that people paste or upload: CSV as spreadsheets write it, whatever its encoding and delimiter. Pure.

A cell that began a formula was written with an apostrophe before it; reading takes it off again, so that what is
exported is what is imported.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbgpu.core.cells import begins_formula
from nbgpu.core.errors import InvalidOptions
from nbgpu.core.texts import Text

MOST_ROWS = 5_000
MOST_BYTES = 2**20
DELIMITERS = ",;\t"
_SHOWN = 60  # characters of what somebody wrote


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A row with the line that it begins on, by the names of the columns; empty cells are not there."""

    line: int
    fields: dict[str, str]


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with a row."""

    line: int
    text: object  # a `Text`, or an English sentence


def decode_table(data: bytes) -> str:
    """Return a file's text: UTF-8 or UTF-16 with or without its mark, else Windows-1252. Raises InvalidOptions."""
    if len(data) > MOST_BYTES:
        raise InvalidOptions(Text("The file is larger than 1 MiB. Cut it into several."))
    try:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return data.decode("utf-16")
        head = data[:200]
        if b"\0" in head:
            return data.decode("utf-16-be" if head[0] == 0 else "utf-16-le")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def read_rows(text: str, columns: Sequence[str], *, needed: Iterable[str]) -> tuple[list[ImportRow], list[Mistake]]:
    """Return the rows, and what can't be read of them. Raises InvalidOptions where the file as a whole is none."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_find_delimiter(text))
    rows: list[ImportRow] = []
    mistakes: list[Mistake] = []
    header: list[str] = []
    begin = 1
    try:
        for cells in reader:
            line, begin = begin, reader.line_num + 1
            found = [parse_cell(cell) for cell in cells]
            if not any(found):
                continue
            if not header:
                header = _read_header(found, columns, frozenset(needed))
                continue
            if len(rows) + len(mistakes) >= MOST_ROWS:
                raise InvalidOptions(Text("The file has more than %(most)s rows. Cut it into several.", most=MOST_ROWS))
            if any(found[len(header) :]):
                mistakes.append(Mistake(line, Text("It has more cells than the first row has names.")))
                continue
            rows.append(ImportRow(line, {key: cell for key, cell in zip(header, found, strict=False) if cell}))
    except csv.Error as error:
        raise InvalidOptions(Text("Line %(line)s is no CSV: %(error)s.", line=begin, error=str(error))) from None
    if not header:
        raise InvalidOptions(Text("The file is empty. Its first row has the names: %(all)s.", all=", ".join(columns)))
    return rows, mistakes


def parse_cell(cell: str) -> str:
    """Return what a cell says: without spaces around it, and without the apostrophe that kept it from being a formula.

    Spaces go first, else an apostrophe that was written before them would hide that there were some.
    """
    cell = cell.strip()
    return cell[1:].strip() if cell.startswith("'") and begins_formula(cell.lstrip("'")) else cell


def guard_cell(text: str) -> str:
    """Return how a text is written, so that it is no formula and `parse_cell` gives it back."""
    return f"'{text}" if begins_formula(text.lstrip("'")) else text


def _find_delimiter(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip(" ,;\t")), "")
    return max(DELIMITERS, key=first.count)


def _read_header(cells: Sequence[str], columns: Sequence[str], needed: frozenset[str]) -> list[str]:
    names = [cell.lower().replace(" ", "_") for cell in cells]
    while names and not names[-1]:
        names.pop()
    everything = ", ".join(columns)
    wrong = next((name for name in names if name not in columns), None)
    if wrong is not None:
        raise InvalidOptions(
            Text("There is no column “%(name)s”; there are: %(all)s.", name=wrong[:_SHOWN], all=everything)
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidOptions(Text("The column “%(name)s” is there twice.", name=twice))
    missing = sorted(needed - set(names))
    if missing:
        raise InvalidOptions(
            Text("The column “%(name)s” is missing; there are: %(all)s.", name=missing[0], all=everything)
        )
    return names
