"""Each public bug report of our list is held by a test that is marked with its number, and no mark is of another."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
REPORTS = TESTS.parent / "docs" / "explanation" / "public-reports.md"
ROW = re.compile(r"^\| (\d+) \|", re.MULTILINE)


def numbers_in(source: str) -> Iterator[int]:
    """Yield the numbers of all `pytest.mark.case(…)` in a file, in decorators and in `pytestmark`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.case":
            (number,) = node.args
            assert isinstance(number, ast.Constant)
            assert isinstance(number.value, int)
            yield number.value


def test_every_case_is_held():
    listed = {int(number) for number in ROW.findall(REPORTS.read_text())}
    assert listed >= {*range(1, 16), *range(28, 32), 35}
    held = {number for file in TESTS.rglob("test_*.py") for number in numbers_in(file.read_text())}
    assert (sorted(listed - held), sorted(held - listed)) == ([], [])
