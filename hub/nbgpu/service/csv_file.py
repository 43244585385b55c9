"""CSV files that are made for one answer."""

import csv
import io
import tempfile
from collections.abc import Iterable, Sequence
from typing import IO

from nbgpu.core.cells import Cell, render_cell

IN_MEMORY = 2**22  # bytes of a file that stay in memory


def write_csv(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> IO[bytes]:
    """Return a CSV file (RFC 4180, UTF-8), open at its start, that is gone when it is closed. Blocks."""
    file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - the caller's to close
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows([render_cell(cell) for cell in row] for row in rows)
    text.detach()
    file.seek(0)
    return file
