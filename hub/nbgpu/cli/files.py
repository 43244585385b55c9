"""Files that a command writes: whole or not at all."""

import csv
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from nbgpu.core.cells import Cell, render_cell
from nbgpu.core.errors import SetupError


def write_csv(file: Path, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Write a CSV file (RFC 4180, UTF-8); "-" is the standard output. Raises SetupError where that can't be."""
    if str(file) == "-":
        _write(sys.stdout, header, rows)
        return
    draft = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with draft.open("x", encoding="utf-8", newline="") as target:
            _write(target, header, rows)
        draft.replace(file)
    except OSError as error:
        raise SetupError(f"{file} can't be written: {error.strerror}. Look at its folder and disk.") from error
    finally:
        draft.unlink(missing_ok=True)


def _write(target: TextIO, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    writer = csv.writer(target)  # its lines end as RFC 4180 has it
    writer.writerow(header)
    writer.writerows([render_cell(cell) for cell in row] for row in rows)
