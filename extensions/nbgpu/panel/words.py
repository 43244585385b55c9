"""Readings as words for a terminal or a cell's output: "12.3 of 80 GiB", "n/a"."""

from nbgpu.panel.frames import DeviceFrame, Frame
from nbgpu.panel.host import SHM

NOT_REPORTED = "n/a"
_GIB = 2**30


def gib(value: int | None) -> str:
    """Return bytes in GiB."""
    return NOT_REPORTED if value is None else f"{value / _GIB:.1f}"


def amount(value: float | None, unit: str) -> str:
    """Return a number with its unit."""
    return NOT_REPORTED if value is None else f"{value:.0f} {unit}"


def title(each: DeviceFrame, number: int) -> str:
    """Return what a device is called: its place among ours, and its name, in which a MIG slice has its profile."""
    device = each.device
    name = device.name or ("MIG slice" if device.is_mig else "GPU of unknown name")
    return f"GPU {number}: {name}"


def describe(frame: Frame) -> str:
    """Return a line for each device and one for the container."""
    lines = [_line(each, number) for number, each in enumerate(frame.devices)]
    if not lines:
        lines = [f"No GPU here. {frame.problem or ''}".strip()]
    if frame.memory_share is not None:
        lines.append(
            f"The GPU is shared: these are totals of all its users; your part is {gib(frame.memory_share)} GiB."
        )
    host = frame.host
    cpu = NOT_REPORTED if host.cpu_used is None else f"{host.cpu_used:.1f}"
    cores = NOT_REPORTED if host.cpu_limit is None else f"{host.cpu_limit:g}"
    lines.append(
        f"CPU {cpu} of {cores} cores, RAM {gib(host.memory_used)} of {gib(host.memory_total)} GiB, "
        f"{SHM} {gib(host.shm_used)} of {gib(host.shm_total)} GiB"
    )
    return "\n".join(lines)


def _line(each: DeviceFrame, number: int) -> str:
    sample = each.sample
    if sample.problem is not None:
        return f"{title(each, number)}: {sample.problem}"
    power, limit = amount(sample.power, "W"), amount(sample.power_limit, "W")
    return (
        f"{title(each, number)}: busy {amount(sample.gpu_utilization, '%')}, "
        f"memory {gib(sample.memory_used)} of {gib(sample.memory_total)} GiB, "
        f"{amount(sample.temperature, '°C')}, {power} of {limit}"
    )
