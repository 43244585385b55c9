"""What a device does: one reading, each field None on its own where it is not reported."""

from datetime import datetime

from nbgpu.core.devices import GpuProcess, UsageSample
from nbgpu.nvml.binding import (
    CLOCK_MEMORY,
    CLOCK_SM,
    ECC_CORRECTED,
    ECC_UNCORRECTED,
    ECC_VOLATILE,
    MEMORY_V2,
    TEMPERATURE_GPU,
    DeviceLost,
    Handle,
    ask,
    number,
)
from nbgpu.nvml.walk import Found


def read_sample(found: Found, taken_at: datetime) -> UsageSample:
    """Return one reading of a device; a lost one is a sample with `problem` and no readings."""
    try:
        if found.problem is not None:
            raise DeviceLost(found.problem)
        return _read(found.uuid, found.handle, taken_at)
    except DeviceLost as error:
        return UsageSample(found.uuid, taken_at, problem=str(error))


def _read(uuid: str, handle: Handle, taken_at: datetime) -> UsageSample:
    used, total = read_memory(handle)
    utilization = ask("nvmlDeviceGetUtilizationRates", handle)
    return UsageSample(
        device_uuid=uuid,
        taken_at=taken_at,
        gpu_utilization=None if utilization is None else number(utilization.gpu),
        memory_utilization=None if utilization is None else number(utilization.memory),
        memory_used=used,
        memory_total=total,
        temperature=_temperature(handle),
        power=_watts("nvmlDeviceGetPowerUsage", handle),
        power_limit=_power_limit(handle),
        sm_clock=number(ask("nvmlDeviceGetClockInfo", handle, CLOCK_SM)),
        memory_clock=number(ask("nvmlDeviceGetClockInfo", handle, CLOCK_MEMORY)),
        ecc_corrected=number(ask("nvmlDeviceGetTotalEccErrors", handle, ECC_CORRECTED, ECC_VOLATILE)),
        ecc_uncorrected=number(ask("nvmlDeviceGetTotalEccErrors", handle, ECC_UNCORRECTED, ECC_VOLATILE)),
        processes=_processes(handle),
    )


def read_memory(handle: Handle) -> tuple[int | None, int | None]:
    """Return used and total memory in bytes.

    The second version of the call leaves out of "used" what the driver keeps for itself, so that an idle GPU reads
    near zero; older drivers have the first only.
    """
    memory = ask("nvmlDeviceGetMemoryInfo", handle, MEMORY_V2)
    if memory is None:
        memory = ask("nvmlDeviceGetMemoryInfo", handle)
    return (None, None) if memory is None else (number(memory.used), number(memory.total))


def _temperature(handle: Handle) -> int | None:
    """Return °C; CUDA 14 removes the first of the two calls, drivers before 2025 lack the second."""
    celsius = number(ask("nvmlDeviceGetTemperature", handle, TEMPERATURE_GPU))
    return number(ask("nvmlDeviceGetTemperatureV", handle, TEMPERATURE_GPU)) if celsius is None else celsius


def _watts(call: str, handle: Handle) -> float | None:
    milliwatts = number(ask(call, handle))
    return None if milliwatts is None else milliwatts / 1000


def _power_limit(handle: Handle) -> float | None:
    """Return W: the limit that holds, else the one that was set."""
    enforced = _watts("nvmlDeviceGetEnforcedPowerLimit", handle)
    return _watts("nvmlDeviceGetPowerManagementLimit", handle) if enforced is None else enforced


def _processes(handle: Handle) -> tuple[GpuProcess, ...] | None:
    """Return compute processes, by the newest call that the driver knows. Memory is None under WSL and MIG."""
    for version in ("_v3", "_v2"):
        listed = ask(f"nvmlDeviceGetComputeRunningProcesses{version}", handle)
        if listed is not None:
            return tuple(GpuProcess(int(item.pid), number(item.usedGpuMemory)) for item in listed)
    return None
