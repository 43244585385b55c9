"""Each public bug report of the kind that has to be held is held by a test that is marked with its number."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
CASES = {*range(1, 16), *range(28, 32), 35}


def numbers_in(source: str) -> Iterator[int]:
    """Yield the numbers of all `pytest.mark.case(…)` in a file, in decorators and in `pytestmark`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.case":
            (number,) = node.args
            assert isinstance(number, ast.Constant)
            assert isinstance(number.value, int)
            yield number.value


def test_every_case_is_held():
    held = {number for file in TESTS.rglob("test_*.py") for number in numbers_in(file.read_text())}
    assert sorted(CASES - held) == []
