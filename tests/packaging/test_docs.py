"""The documentation is held to the program: every command and option is described, every link leads somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

from nbgpu.cli.main import app
from nbgpu.service.api import ROUTES
from nbgpu.service.openapi import to_path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/cli.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield path, command
        return
    if getattr(command, "invoke_without_command", False) and path != "nbgpu":  # a command that has others below it
        yield path, command
    for name, sub in subcommands.items():
        yield from _commands(sub, f"{path} {name}")


COMMANDS = dict(_commands(typer.main.get_command(app), "nbgpu"))


def _section(path: str) -> str:
    """Return the text under the command's own heading."""
    match = re.search(rf"^### `{re.escape(path)}`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match, f"docs/reference/cli.md has no heading ### `{path}`"
    return match[1]


@pytest.mark.parametrize("path", COMMANDS)
def test_command_is_documented(path):
    assert len(_section(path).split()) > 5


@pytest.mark.parametrize("path", COMMANDS)
def test_options_are_documented(path):
    options = [name for parameter in COMMANDS[path].params for name in parameter.opts if name.startswith("--")]
    assert [name for name in options if name != "--help" and f"`{name}`" not in _section(path)] == []


def test_no_command_is_documented_that_does_not_exist():
    assert set(re.findall(r"^### `(nbgpu [^`]+)`", PAGE, re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS)
def test_command_says_what_it_does(path):
    assert COMMANDS[path].help


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    named = {target for page in PAGES for target in re.findall(r"`?make ([a-z]+)\b", page.read_text())}
    prose = {"sure"}
    assert {target for target in named - prose if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()


def test_every_path_of_the_api_and_each_of_its_parameters_is_documented():
    page = (ROOT / "docs/reference/rest.md").read_text()
    for pattern, handler in ROUTES.items():
        path = f"/services/nbgpu{to_path(pattern)}"
        _, found, section = page.partition(f"### `{path}`\n")
        assert found, f"docs/reference/rest.md has no heading ### `{path}`"
        section = section.partition("\n### ")[0]
        names = {each.name for operation in handler.operations.values() for each in operation.parameters}
        assert [name for name in sorted(names) if f"`{name}`" not in section] == []
