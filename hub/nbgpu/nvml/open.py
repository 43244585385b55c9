"""Choosing the driver: the machine's own, or the simulated one where there is none."""

import ctypes
import os
from pathlib import Path
from typing import Literal

from nbgpu.core.errors import SetupError
from nbgpu.nvml.backoff import BackOff
from nbgpu.nvml.binding import is_loaded, is_simulated
from nbgpu.nvml.inventory import NvmlInventory
from nbgpu.nvml.simulator.activate import ROOT_VARIABLE, activate, is_active
from nbgpu.nvml.simulator.build import LIBRARY_NAME
from nbgpu.nvml.simulator.state import CONTAINER_ROOT, SimulatedDriver

Mode = Literal["auto", "real", "simulated"]
CONTROL_DEVICE = Path("/dev/nvidiactl")


def open_inventory(
    simulator_root: Path | None, profile: str, *, mode: Mode = "auto", back_off: BackOff | None = None
) -> NvmlInventory:
    """Return the inventory of this machine; without a driver ("auto"), or when asked to, of a simulated one.

    The simulated one lies in `simulator_root` (else what NBGPU_SIMULATOR_ROOT names, else /run/nbgpu-simulator) and is
    made from `profile` when it is not there yet. Raises SetupError when it can't be built. In a container, where the
    driver of either kind is mounted, "real" is right: it builds nothing. `back_off` spaces the tries to reach a driver
    that fails.
    """
    if mode == "real" or (mode == "auto" and has_driver()):
        return NvmlInventory(back_off=back_off)
    if is_loaded() and not is_simulated():
        raise SetupError(
            "The simulated GPU driver was asked for, but this process has loaded the real one: "
            "choose the simulated driver before anything reads the GPUs, or in a new process."
        )
    root = simulator_root or Path(os.environ.get(ROOT_VARIABLE) or CONTAINER_ROOT)
    SimulatedDriver(root).create(profile)
    activate(root)
    return NvmlInventory(back_off=back_off)


def has_driver() -> bool:
    """Whether there is an NVIDIA driver to ask, working or not; a simulated one of this process does not count."""
    if CONTROL_DEVICE.exists():
        return True
    if is_active():
        return False
    try:
        ctypes.CDLL(LIBRARY_NAME)
    except OSError:
        return False
    return True
