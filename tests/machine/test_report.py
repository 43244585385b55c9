"""What a person sees of the set-up."""

import io
import itertools

import pytest
from rich.console import Console
from tests.machine.conftest import FakeHost

from nbgpu.core.errors import SetupError
from nbgpu.machine import report
from nbgpu.machine.host import CommandFailed, Host
from nbgpu.machine.report import Progress
from nbgpu.machine.steps import Step, needed_tools, set_up


@pytest.fixture
def console():
    """A console without a terminal, that keeps its text."""
    return Console(file=io.StringIO(), highlight=False, soft_wrap=True)


def test_each_step_is_a_plain_line_without_a_terminal(console, monkeypatch):
    ticks = itertools.count(0, 1)
    monkeypatch.setattr(report.time, "monotonic", lambda: float(next(ticks)))
    progress = Progress(2, console=console)
    progress.run("Tools", lambda detail: "there")
    progress.run("Engine", lambda detail: detail("\x1b[91mreading lists\x1b[0m [1/3]") or "started")
    assert console.file.getvalue().splitlines() == [
        "[1/2] Tools: there (1.0 s)",
        "[2/2] Engine … reading lists [1/3]",
        "[2/2] Engine: started (2.0 s)",
    ]


def test_details_come_at_most_every_ten_seconds(console, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(report.time, "monotonic", lambda: now[0])

    def action(detail):
        for second in range(25):
            now[0] = float(second)
            detail(f"line {second}")
        return "done"

    Progress(1, console=console).run("apt", action)
    assert [line[-7:].strip() for line in console.file.getvalue().splitlines()[:-1]] == ["line 0", "line 10", "line 20"]


def test_a_terminal_gets_the_outcome_too():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    Progress(1, console=console).run("Tools", lambda detail: detail("x") or "there")
    assert "Tools: there" in console.file.getvalue()


def test_all_blockers_come_before_any_step(console):
    done = []
    table = [
        Step("a", lambda detail: done.append("a") or "", lambda: ["install a"]),
        Step("b", lambda detail: done.append("b") or "", lambda: ["install b", "install a"]),
    ]
    with pytest.raises(SetupError, match=r"(?s)  - install a\n  - install b$"):
        set_up(table, console=console)
    assert done == []


def test_a_failing_step_stops_there(console):
    def fail(detail):
        raise SetupError("no space")

    table = [Step("a", fail), Step("b", lambda detail: pytest.fail("must not run"))]
    with pytest.raises(SetupError, match="no space"):
        set_up(table, console=console)


def test_debootstrap_is_no_must_where_apt_can_not_bring_it():
    assert [tool.commands[0] for tool in needed_tools(FakeHost(root=False), for_tests=True)] == ["gcc"]
    assert [tool.commands[0] for tool in needed_tools(FakeHost(), for_tests=True)] == ["gcc", "debootstrap"]


def test_a_command_reports_its_lines_and_fails_with_the_last(details):
    with pytest.raises(CommandFailed, match=r"(?s)ended with status 3:\n    one\n    two$"):
        Host().run(["sh", "-c", "echo one; echo two >&2; exit 3"], report=details.append)
    assert details == ["one", "two"]


def test_a_program_that_is_not_there(details):
    with pytest.raises(CommandFailed, match=r"^no-such-program can't be started"):
        Host().run(["no-such-program"], report=details.append)
    assert not Host().succeeds("no-such-program")
    assert Host().output("no-such-program") == ""
