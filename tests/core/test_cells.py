"""Cells: no text that somebody else chose is a formula in a spreadsheet; numbers stay numbers."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbgpu.core.cells import render_cell


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r"])
def test_a_text_that_would_be_a_formula_is_made_a_text(begin):
    assert render_cell(f"{begin}cmd|' /C calc'!A0") == f"'{begin}cmd|' /C calc'!A0"


@given(st.text())
def test_no_text_begins_a_formula_and_none_loses_a_letter(text):
    rendered = render_cell(text)
    assert not rendered.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert rendered.removeprefix("'") == text.removeprefix("'")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (-5, "-5"), (Decimal("-0.000005"), "-0.000005"), (Decimal("1E-9"), "0.000000001"), ("", "")],
)
def test_numbers_stay_numbers(value, text):
    assert render_cell(value) == text
