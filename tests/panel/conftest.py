"""A collector and a sampler on the simulated driver, with a clock that moves only when a test says so."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nbgpu.nvml import NvmlInventory
from nbgpu.nvml.simulator import activate
from nbgpu.nvml.simulator.state import CONTAINER_ROOT
from nbgpu.panel.collect import Collector
from nbgpu.panel.host import HostReader
from nbgpu.panel.sampler import Sampler
from support.simulated import ManualClock, clock, library, simulate

__all__ = ["clock", "library", "simulate"]


@pytest.fixture
def no_host(tmp_path: Path) -> HostReader:
    """A machine whose kernel tells nothing."""
    return HostReader(cgroup=tmp_path / "no", proc=tmp_path / "no", shm=tmp_path / "no")


@pytest.fixture
def make_sampler(clock: ManualClock, no_host: HostReader) -> Callable[..., Sampler]:
    """Return what makes a sampler; `tick` moves it, no thread runs until somebody listens."""

    def make(*, share: int | None = None, limit_s: float = 2.0) -> Sampler:
        driver = NvmlInventory(now=clock, limit_s=limit_s)
        environ = {} if share is None else {"NBGPU_GPU_MEMORY_SHARE": str(share)}
        return Sampler(Collector(driver, host=no_host, environ=environ), now=clock)

    return make


@pytest.fixture
def enter(tmp_path: Path):
    """Lay out a container's view of a driver by links in place of mounts, and activate it."""

    def lay_out(driver, *uuids):
        inside = tmp_path / "inside"
        (inside / "devices").mkdir(parents=True)
        for host, container in driver.mounts(uuids).items():
            if container.is_relative_to(CONTAINER_ROOT):
                (inside / container.relative_to(CONTAINER_ROOT)).symlink_to(host)
        (inside / "lib").symlink_to(driver.library_folder)
        activate(inside)

    return lay_out
