"""Where Debian comes from: a registry that answers, in bounded time; the machine's own mirrors."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError

from nbgpu.images.debian import probe_registry
from nbgpu.images.debootstrap import machine_mirrors


def registry(answer: Any) -> Any:
    return SimpleNamespace(api=SimpleNamespace(inspect_distribution=answer))


def test_a_registry_that_never_answers_costs_a_bounded_time() -> None:
    started = time.monotonic()
    client = registry(lambda name: time.sleep(5))
    assert probe_registry(client, "debian:bookworm-slim", seconds=0.1) == "no answer in 0.1 s"
    assert time.monotonic() - started < 2


def test_a_refusal_is_given_as_the_reason() -> None:
    def refuse(name: str) -> None:
        raise APIError('500 Server Error: Internal Server Error ("dial tcp: no such host")')

    assert probe_registry(registry(refuse), "debian:bookworm-slim") == "dial tcp: no such host"


def test_an_answer_is_no_problem() -> None:
    assert probe_registry(registry(lambda name: {}), "debian:bookworm-slim") is None


DEB822 = """\
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main

# a comment
Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""
OTHER = "deb [signed-by=/x] https://other.example/apt stable main\n"
ONE_LINE = "deb http://mirror.example/debian bookworm main contrib\n"
MAIN = "http://mirror.example/debian"


@pytest.mark.parametrize(
    ("release", "files", "expected"),
    [
        ("ID=debian\n", {"sources.list.d/debian.sources": DEB822}, (MAIN, f"{MAIN}-security")),
        ("ID=debian\n", {"sources.list.d/a.list": OTHER, "sources.list": ONE_LINE}, (MAIN, None)),
        ("ID=debian\n", {}, (None, None)),
        ("ID=ubuntu\n", {"sources.list": ONE_LINE}, (None, None)),
    ],
)
def test_mirrors_are_the_machines_own(
    tmp_path: Path, release: str, files: dict[str, str], expected: tuple[str | None, str | None]
) -> None:
    (tmp_path / "os-release").write_text(release)
    for name, text in files.items():
        (tmp_path / "apt" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "apt" / name).write_text(text)
    assert machine_mirrors(tmp_path) == expected
