"""Xid events: what the driver says of a device's faults when they happen, each told once."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from nbgpu.core.errors import DriverError
from nbgpu.nvml.binding import XID_EVENT, DeviceLost, ask, handle_key
from nbgpu.nvml.walk import Found

_AT_ONCE = 64  # events a call; a device in trouble may repeat itself without end


class XidEvents:
    """The driver's event set. Events from before a device was watched are not told. For one thread at a time."""

    def __init__(self) -> None:
        self._set: Any = None
        self._watched: dict[int | None, str] = {}  # handle -> UUID

    def collect(self) -> dict[str, tuple[int, ...]]:
        """Return the Xids that came since the last call, by GPU. Raises DriverLost."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for _ in range(_AT_ONCE if self._watched else 0):
            event = self._next()
            if event is None:
                break
            uuid = self._watched.get(handle_key(event.device))
            if uuid is not None and event.eventType & XID_EVENT:
                found[uuid].append(int(event.eventData))
        return {uuid: tuple(xids) for uuid, xids in found.items()}

    def watch(self, devices: Iterable[Found]) -> None:
        """Watch the GPUs that are not watched yet; those that have no events are left. Raises DriverLost."""
        known = set(self._watched.values())
        for device in devices:
            if device.handle is not None and device.parent_uuid is None and device.uuid not in known:
                self._register(device)

    def close(self) -> None:
        """Give the event set back, before the driver is shut down."""
        held, self._set = self._set, None
        if held is not None:
            with suppress(DriverError):  # it went with the driver
                ask("nvmlEventSetFree", held)
        self._watched.clear()

    def _next(self) -> Any:
        try:
            return ask("nvmlEventSetWait_v2", self._set, 0)  # ms: a timeout is None
        except DeviceLost:
            return None  # reading the devices tells which

    def _register(self, device: Found) -> None:
        if self._set is None:
            self._set = ask("nvmlEventSetCreate")
        if self._set is None:
            return
        self._watched[handle_key(device.handle)] = device.uuid
        try:
            ask("nvmlDeviceRegisterEvents", device.handle, XID_EVENT, self._set)
        except DeviceLost:
            del self._watched[handle_key(device.handle)]
