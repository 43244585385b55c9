"""Fixtures of the simulated driver, for the folders that import them into their conftest."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nbgpu.nvml.simulator import SimulatedDriver, activate, ensure_library
from nbgpu.nvml.simulator.activate import ROOT_VARIABLE

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


class ManualClock:
    """A clock that moves only when a test says so."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_library(tmp_path_factory.mktemp("library"))


@pytest.fixture
def simulate(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SimulatedDriver]:
    """Return what makes a simulated driver with its own tree; the library is compiled once for all."""

    def make(profile: str, *, folder: str = "simulator") -> SimulatedDriver:
        driver = SimulatedDriver(tmp_path / folder)
        driver.create(profile)
        driver.library_folder.mkdir(exist_ok=True)
        if not (driver.library_folder / library.name).exists():
            os.link(library, driver.library_folder / library.name)  # the hash in it saves compiling it again
        monkeypatch.setenv(ROOT_VARIABLE, str(driver.root))  # so that it is put back after the test
        activate(driver.root)
        return driver

    return make


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
