"""Frames as JSON between the processes of one server, whole: what one wrote another reads, of the same version."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from nbgpu.core.devices import Device, GpuProcess, UsageSample
from nbgpu.panel.frames import DeviceFrame, Frame
from nbgpu.panel.host import HostSample
from nbgpu.panel.processes import OwnProcess


def encode_frame(frame: Frame) -> dict[str, Any]:
    """Return what `json.dumps(…, default=as_json)` takes."""
    return asdict(frame)


def as_json(value: object) -> Any:
    """Return what JSON has no form of."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is not part of a frame")


def decode_frame(plain: dict[str, Any]) -> Frame:
    """Return the frame. Raises TypeError, KeyError or ValueError for what another version wrote."""
    return Frame(
        **{
            **plain,
            "taken_at": datetime.fromisoformat(plain["taken_at"]),
            "devices": tuple(_device_frame(each) for each in plain["devices"]),
            "host": HostSample(**plain["host"]),
        }
    )


def _device_frame(plain: dict[str, Any]) -> DeviceFrame:
    last, processes = plain["last"], plain["processes"]
    return DeviceFrame(
        device=_device(plain["device"]),
        sample=_sample(plain["sample"]),
        processes=None if processes is None else tuple(OwnProcess(**each) for each in processes),
        last=None if last is None else _sample(last),
    )


def _device(plain: dict[str, Any]) -> Device:
    capability = plain["compute_capability"]
    return Device(
        **{
            **plain,
            "compute_capability": None if capability is None else tuple(capability),
            "nvlink_peers": frozenset(plain["nvlink_peers"]),
        }
    )


def _sample(plain: dict[str, Any]) -> UsageSample:
    listed = plain["processes"]
    return UsageSample(
        **{
            **plain,
            "taken_at": datetime.fromisoformat(plain["taken_at"]),
            "processes": None if listed is None else tuple(GpuProcess(**each) for each in listed),
        }
    )
