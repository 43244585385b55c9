"""Lists of the command on terminals of any width."""

import pytest

from nbgpu.cli.output import print_table

COLUMNS = ["Flavor", "Name", "Price"]
ROWS = [["mig-1g", "Small slice [of a GPU]", "0.45 USD per hour"], ["cpu", "", "0.02 USD per hour"]]


@pytest.mark.parametrize(("width", "header"), [("80", True), ("18", False)])
def test_words_are_whole_at_any_width(monkeypatch, capsys, width, header):
    monkeypatch.setenv("COLUMNS", width)
    print_table(COLUMNS, ROWS, empty="")
    said = capsys.readouterr().out
    for word in ["mig-1g", "Small", "slice", "[of", "a", "GPU]", "0.45", "USD", "per", "hour", "cpu"]:
        assert word in said.split()
    assert ("Flavor" in said.splitlines()[1] and "Price" in said.splitlines()[1]) is header


def test_without_rows_a_sentence_is_said(capsys):
    print_table(COLUMNS, [], empty="There is nothing.")
    assert capsys.readouterr().out == "There is nothing.\n"
