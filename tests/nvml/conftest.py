"""A simulated driver for each test: its own tree, one library compiled for all."""

import threading
from collections.abc import Callable

import pytest

from nbgpu.nvml import NvmlInventory
from support.simulated import ManualClock, clock, library, simulate

__all__ = ["clock", "library", "simulate"]


@pytest.fixture
def inventory(clock: ManualClock) -> NvmlInventory:
    return NvmlInventory(now=clock)


@pytest.fixture
def join_workers() -> Callable[[], None]:
    """Return what waits until no read is under way any more."""

    def join() -> None:
        for thread in threading.enumerate():
            if thread.name == "nbgpu-nvml":
                thread.join(10)
                assert not thread.is_alive()

    return join
