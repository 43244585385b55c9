"""How granted devices get into a container: pure builders, dict out.

Whatever the way, `NVIDIA_VISIBLE_DEVICES` is set explicitly: an image's baked-in "all" must not open other GPUs, and
where NVIDIA's runtime is Docker's default one, only "void" keeps GPUs out of a CPU server.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """What a container gets besides its flavor's limits."""

    environment: Mapping[str, str]
    host_config: Mapping[str, Any] = field(default_factory=dict)  # arguments of docker's create_host_config


class DeviceAccess(Protocol):
    """A way to hand devices to a container."""

    def grant(self, device_uuids: Sequence[str]) -> DeviceGrant:
        """Return what makes exactly these devices (none: a CPU server) visible. KeyError for one that is gone."""


class ToolkitAccess:
    """NVIDIA's container toolkit: Docker device requests by UUID, what `docker run --gpus device=…` sends."""

    def grant(self, device_uuids: Sequence[str]) -> DeviceGrant:
        """Return a device request for the UUIDs; none for a CPU server."""
        if not device_uuids:
            return DeviceGrant(_visible(device_uuids))
        request = {
            "Driver": "",
            "Count": 0,
            "DeviceIDs": list(device_uuids),
            "Capabilities": [["gpu", "utility", "compute"]],
            "Options": {},
        }
        return DeviceGrant(_visible(device_uuids), {"device_requests": [request]})


class SimulatedAccess:
    """The simulated driver: its library and the folders of the granted devices, mounted read-only."""

    def __init__(self, mounts: Callable[[Sequence[str]], Mapping[str, str]]) -> None:
        """Take the function that maps device UUIDs to {host path: container path}."""
        self._mounts = mounts

    def grant(self, device_uuids: Sequence[str]) -> DeviceGrant:
        """Return the mounts of the UUIDs; none for a CPU server, which then has no driver library at all."""
        if not device_uuids:
            return DeviceGrant(_visible(device_uuids))
        binds = {host: {"bind": inside, "mode": "ro"} for host, inside in self._mounts(device_uuids).items()}
        return DeviceGrant(_visible(device_uuids), {"binds": binds})


def _visible(device_uuids: Sequence[str]) -> dict[str, str]:
    return {
        "NVIDIA_VISIBLE_DEVICES": ",".join(device_uuids) or "void",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }
