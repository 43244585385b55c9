"""What goes to the browser: small JSON with the newest frame each second, and the past when a page asks for it all."""

from collections.abc import Mapping, Sequence
from typing import Any

from nbgpu.panel.frames import READINGS, DeviceFrame, Frame, readings
from nbgpu.panel.host import HostSample

HOST = "host"  # the key of the container's own series


def to_wire(frame: Frame, *, interval_s: float) -> dict[str, Any]:
    """Return a frame as JSON. Units as in `frames.readings`; CPU in cores."""
    return {
        "at": frame.taken_at.timestamp(),
        "interval": interval_s,
        "devices": [_device(each) for each in frame.devices],
        "host": _host(frame.host),
        "problem": frame.problem,
        "simulated": frame.simulated,
        "share": frame.memory_share,
    }


def past_to_wire(frames: Sequence[Frame]) -> dict[str, dict[str, list[float | None]]]:
    """Return the series of each device (by UUID) and of the container, oldest first, None where nothing was read."""
    uuids = {each.device.uuid for frame in frames for each in frame.devices}
    series: dict[str, dict[str, list[float | None]]] = {name: {} for name in (HOST, *uuids)}
    for frame in frames:
        found = {each.device.uuid: readings(each.sample) for each in frame.devices}
        for uuid in uuids:
            _append(series[uuid], found.get(uuid, _NOTHING))
        _append(series[HOST], _host(frame.host))
    return series


_NOTHING: Mapping[str, None] = dict.fromkeys(READINGS)


def _device(each: DeviceFrame) -> dict[str, Any]:
    device = each.device
    return {
        "uuid": device.uuid,
        "name": device.name,
        "index": device.index,
        "mig": device.mig_profile if device.is_mig else None,
        "isMig": device.is_mig,
        "now": dict(readings(each.shown)),
        "processes": None
        if each.processes is None
        else [{"pid": own.pid, "name": own.name, "memory": own.memory_used} for own in each.processes],
        "problem": each.sample.problem,
        "lost": each.sample.lost,
        "age": each.age_s,
    }


def _host(host: HostSample) -> dict[str, float | None]:
    return {
        "cpu_used": None if host.cpu_used is None else round(host.cpu_used, 2),
        "cpu_limit": host.cpu_limit,
        "ram_used": host.memory_used,
        "ram_total": host.memory_total,
        "shm_used": host.shm_used,
        "shm_total": host.shm_total,
    }


def _append(series: dict[str, list[float | None]], values: Mapping[str, float | None]) -> None:
    for key, value in values.items():
        series.setdefault(key, []).append(value)
