"""How granted devices reach a server that is a process: by variables alone. Nothing keeps a process from more.

CUDA honours CUDA_VISIBLE_DEVICES, and the simulated driver shows what its root folder holds. NVIDIA's own NVML, and so
nvidia-smi, shows every GPU to every process of the machine.
"""

from collections.abc import Callable, Mapping, Sequence

from nbgpu.spawner.device_access import DeviceGrant


class ProcessAccess:
    """Variables for exactly the granted devices."""

    def __init__(self, driver: Callable[[Sequence[str]], Mapping[str, str]] = lambda _: {}) -> None:
        """Take what returns the variables by which a process finds its driver, where it does not by itself."""
        self._driver = driver

    def grant(self, device_uuids: Sequence[str]) -> DeviceGrant:
        """Return the variables that make the devices (none: a CPU server) visible."""
        visible = {
            "NVIDIA_VISIBLE_DEVICES": ",".join(device_uuids) or "void",
            "CUDA_VISIBLE_DEVICES": ",".join(device_uuids),
        }
        return DeviceGrant({**visible, **self._driver(device_uuids)})
