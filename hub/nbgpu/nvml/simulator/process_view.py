"""The simulated driver for a process beside us: a root folder that has the granted devices and no other."""

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nbgpu.nvml.simulator.activate import ROOT_VARIABLE
from nbgpu.nvml.simulator.build import ensure_library
from nbgpu.nvml.simulator.state import SimulatedDriver


def show_devices(driver: SimulatedDriver, device_uuids: Sequence[str]) -> dict[str, str]:
    """Return the variables with which a new process sees exactly these devices; none without devices: no driver.

    A view is a folder of relative links, named by what it shows: the same for the same devices, for ever.
    KeyError for an unknown device.
    """
    if not device_uuids:
        return {}
    for uuid in device_uuids:
        driver.read(uuid)
    library = ensure_library(driver.library_folder)
    name = hashlib.sha256("\n".join(sorted(device_uuids)).encode()).hexdigest()[:16]
    view = driver.root / "views" / name
    (view / "devices").mkdir(parents=True, exist_ok=True)
    _link(view / "driver", Path("../../driver"))
    for uuid in device_uuids:
        _link(view / "devices" / uuid, Path("../../../devices") / uuid)
    return {ROOT_VARIABLE: os.fspath(view), "LD_LIBRARY_PATH": os.fspath(library.parent)}


def _link(path: Path, target: Path) -> None:
    with suppress(FileExistsError):
        path.symlink_to(target)
