"""Making the simulated driver the one that this process finds."""

import ctypes
import os
from pathlib import Path

from nbgpu.core.errors import SetupError
from nbgpu.nvml.simulator.build import LIBRARY_NAME, ensure_library
from nbgpu.nvml.simulator.state import SimulatedDriver

ROOT_VARIABLE = "NBGPU_SIMULATOR_ROOT"
_loaded: list[ctypes.CDLL] = []  # keeps the library open: it can't be unloaded while handles may be held


def activate(root: Path) -> None:
    """Let pynvml in this process, and in its children, answer from the tree in `root`.

    The library is loaded by its full path first; the dynamic linker then gives the same one to whoever asks for
    "libnvidia-ml.so.1", as that is its SONAME. Another root may be activated later; a real driver's library that was
    loaded before stays (see `nbgpu.nvml.open_inventory`). Raises SetupError when the library can't be compiled or
    loaded.
    """
    library = ensure_library(SimulatedDriver(root).library_folder)
    try:
        _loaded.append(ctypes.CDLL(str(library)))
    except OSError as error:
        raise SetupError(
            f"The simulated GPU driver can't be loaded from {library} ({error}): put the data folder on a file "
            f"system that is not mounted noexec, then delete {LIBRARY_NAME} to have it made anew."
        ) from error
    os.environ[ROOT_VARIABLE] = str(root)


def is_active() -> bool:
    """Whether this process has activated a simulated driver."""
    return bool(_loaded)
