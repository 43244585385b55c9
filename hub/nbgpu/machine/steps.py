"""The set-up as a table of contents. First all that can't be had is collected into one message; then step by step."""

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console

from nbgpu.core.errors import SetupError
from nbgpu.images.builder import ensure_image
from nbgpu.images.built import image_reference
from nbgpu.machine import browser, engine, notebook, packages
from nbgpu.machine.host import Host
from nbgpu.machine.proxy import default_cache, ensure_proxy
from nbgpu.machine.report import Detail, Progress

Wanted = Literal["auto", "docker", "local"]
BASE_IMAGE = "base"  # the slug of the image that every other one stands on


class NoEngine(SetupError):
    """No Docker engine can be had on this machine."""


def _nothing() -> list[str]:
    return []


@dataclass(frozen=True, slots=True)
class Step:
    """One piece of the machine. `ensure` changes nothing where the piece is there; it returns what came of it."""

    title: str
    ensure: Callable[[Detail], str]
    blockers: Callable[[], list[str]] = _nothing  # what a person must do first, a sentence each


def steps(host: Host, wanted: Literal["docker", "local"] = "docker", *, for_tests: bool = False) -> list[Step]:
    """Return what a hub on the engine needs, in order; `for_tests` adds what only the test suite needs."""
    tools = needed_tools(host, for_tests=for_tests, local=wanted == "local")
    table = [
        Step(
            "Tools",
            lambda report: packages.ensure_tools(host, tools, report),
            lambda: packages.blockers(host, tools),
        ),
        Step("Proxy", lambda report: _proxy(host, report)),
    ]
    if wanted == "docker":
        table.insert(1, Step("Docker engine", lambda report: _engine(host, report), lambda: engine.blockers(host)))
        table.append(Step("Base image", _base_image))
    if wanted == "local" or for_tests:
        table.append(Step("Notebooks", lambda report: notebook.ensure_notebook(host, default_cache(), report)))
    if for_tests:
        table.append(
            Step(
                "Browser",
                lambda report: browser.ensure_browser(host, report),
                lambda: browser.blockers_for_browser(host),
            )
        )
    return table


def set_up(table: Iterable[Step], *, console: Console | None = None) -> None:
    """Bring everything the table names. SetupError lists at once all that a person must install, and how."""
    table = list(table)
    problems = [problem for step in table for problem in step.blockers()]
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in dict.fromkeys(problems))
        raise SetupError(f"This machine lacks something the set-up can't bring. Then run this again:\n{listed}")
    progress = Progress(len(table), console=console)
    for step in table:
        progress.run(step.title, step.ensure)


def needed_tools(host: Host, *, for_tests: bool, local: bool = False) -> list[packages.Tool]:
    """Return the tools this machine has use for; `local` needs none that builds images."""
    tools = []
    if for_tests or not has_nvidia_driver():
        tools.append(packages.COMPILER)
    if local:
        return tools
    # Only where apt can bring it: elsewhere the base image has to come from a registry.
    if packages.DEBOOTSTRAP.is_there(host) or not packages.blockers(host, [packages.DEBOOTSTRAP]):
        tools.append(packages.DEBOOTSTRAP)
    return tools


def has_nvidia_driver() -> bool:
    """Whether NVIDIA's management library can be loaded; without it the GPUs are simulated."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def _engine(host: Host, report: Detail) -> str:
    try:
        return engine.ensure_engine(host, report)
    except SetupError as error:
        raise NoEngine(str(error)) from error


def _proxy(host: Host, report: Detail) -> str:
    command = ensure_proxy(host, default_cache(), report)
    return f"{Path(command[-1]).name}" + (f" on {command[0]}" if len(command) > 1 else "")


def _base_image(report: Detail) -> str:
    ensured = ensure_image(BASE_IMAGE, report=report)
    return f"{image_reference(BASE_IMAGE)} {'built' if ensured.was_built else 'is up to date'}"
