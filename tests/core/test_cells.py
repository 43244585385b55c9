"""Cells: no text that somebody else chose is a formula in a spreadsheet; numbers stay numbers."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbgpu.core.cells import render_cell

BEGINS = ["=", "+", "-", "@", "\t", "\r", "\n", "\x00", "＝", "＋", "－", "＠"]
DROPPED = ["", " ", "   ", "\u00a0", "\u3000", "\u200b", "\ufeff", "\x1f", " \n"]


@pytest.mark.parametrize("dropped", DROPPED, ids=ascii)
@pytest.mark.parametrize("begin", BEGINS, ids=ascii)
def test_a_text_that_would_be_a_formula_is_made_a_text(begin, dropped):
    text = f"{dropped}{begin}=cmd|' /C calc'!A0"
    assert render_cell(text) == f"'{text}"


@given(st.text())
def test_no_text_begins_a_formula_and_none_loses_a_letter(text):
    rendered = render_cell(text)
    assert not rendered.lstrip(" ").startswith(tuple("=+-@＝＋－＠"))
    assert not rendered.startswith(tuple(BEGINS))
    assert rendered.removeprefix("'") == text.removeprefix("'")


@pytest.mark.parametrize("text", ["ann", " ann", "a=b", "ml-team", "", " ", "東京", "'=x"])
def test_other_texts_stay_as_they_are(text):
    assert render_cell(text) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (-5, "-5"), (Decimal("-0.000005"), "-0.000005"), (Decimal("1E-9"), "0.000000001"), ("", "")],
)
def test_numbers_stay_numbers(value, text):
    assert render_cell(value) == text
