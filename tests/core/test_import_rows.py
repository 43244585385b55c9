"""Tables that people paste or upload: whatever wrote them, they are read as they were meant."""

import csv
import io
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbgpu.core.cells import render_cell
from nbgpu.core.errors import InvalidOptions
from nbgpu.core.import_rows import MOST_BYTES, MOST_ROWS, decode_table, guard_cell, parse_cell, read_rows

COLUMNS = ("user", "amount", "reason")
TEXT = "user,amount,reason\r\nmüller,20.00,Übung 1\r\n"
MEANT = [(2, {"user": "müller", "amount": "20.00", "reason": "Übung 1"})]


def read(text: str, columns=COLUMNS, needed=("user",)):
    rows, mistakes = read_rows(text, columns, needed=needed)
    assert mistakes == []
    return [(each.line, each.fields) for each in rows]


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        TEXT.encode("utf-8-sig"),
        TEXT.encode("utf-16"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        TEXT.encode("cp1252"),
    ],
)
def test_each_encoding_is_read_as_it_was_meant(data):
    assert read(decode_table(data)) == MEANT


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_each_delimiter_and_end_of_line(delimiter, end):
    lines = ["", delimiter * 2, delimiter.join(COLUMNS), delimiter.join(["müller", "20.00", "Übung 1"]), "", ""]
    assert [fields for _, fields in read(end.join(lines))] == [MEANT[0][1]]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('user,reason\n"a ""b"", c",x\n', [(2, {"user": 'a "b", c', "reason": "x"})]),
        (
            'user,reason\nann,"two\nlines"\nbob,x\n',
            [(2, {"user": "ann", "reason": "two\nlines"}), (4, {"user": "bob", "reason": "x"})],
        ),
        ("User , Reason\n ann , x \n", [(2, {"user": "ann", "reason": "x"})]),
        ("user,reason,,\nann,,,\n", [(2, {"user": "ann"})]),
        ("user,reason\nann\n", [(2, {"user": "ann"})]),
        ("user;reason\nann;a,b,c\n", [(2, {"user": "ann", "reason": "a,b,c"})]),
        ("user,reason\n'=ann,'-1\n", [(2, {"user": "=ann", "reason": "-1"})]),
        ("user,reason\n'ann,x\n", [(2, {"user": "'ann", "reason": "x"})]),
    ],
)
def test_cells(text, found):
    assert read(text) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "The file is empty. Its first row has the names: user, amount, reason"),
        ("\n,,\n", "The file is empty"),
        ("user,colour\n", "no column “colour”; there are: user, amount, reason"),
        ("user,user\n", "“user” is there twice"),
        ("amount\n", "The column “user” is missing"),
        ("user\n" + "ann\n" * (MOST_ROWS + 1), "more than 5000 rows"),
        ("user\n" + "x" * 140_000, "Line 2 is no CSV"),
    ],
)
def test_what_is_no_such_file_is_said(text, words):
    with pytest.raises(InvalidOptions, match=words):
        read_rows(text, COLUMNS, needed=["user"])


def test_a_row_with_too_many_cells_is_told_by_its_line():
    rows, (mistake,) = read_rows("user\nann\nbob,x\n", COLUMNS, needed=["user"])
    assert ([each.line for each in rows], mistake.line) == ([2], 3)
    assert str(mistake.text) == "It has more cells than the first row has names."


def test_the_most_rows_and_bytes_are_read():
    assert len(read("user\n" + "ann\n" * MOST_ROWS)) == MOST_ROWS
    assert len(decode_table(b"x" * MOST_BYTES)) == MOST_BYTES
    with pytest.raises(InvalidOptions, match="larger than 1 MiB"):
        decode_table(b"x" * (MOST_BYTES + 1))


@given(st.binary(max_size=300))
def test_whatever_is_sent_is_read_or_refused_in_words(data):
    with suppress(InvalidOptions):
        read_rows(decode_table(data), COLUMNS, needed=["user"])


@given(
    st.lists(
        st.text(st.sampled_from("=+-@'\"ab ,;\t"), min_size=1, max_size=6).filter(str.strip), min_size=1, max_size=3
    )
)
def test_what_is_written_is_no_formula_and_is_read_back(cells):
    cells = [each.strip() for each in cells]
    written = [guard_cell(each) for each in cells]
    assert [render_cell(each) for each in written] == written, "nothing is left that a spreadsheet would run"
    file = io.StringIO(newline="")
    csv.writer(file).writerows([["user", "amount", "reason"], [*written, *["x"] * (3 - len(written))]])
    ((_, fields),) = read(file.getvalue())
    assert list(fields.values())[: len(cells)] == cells
    assert [parse_cell(each) for each in written] == cells
