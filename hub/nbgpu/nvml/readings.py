"""What a device does: one reading, each field None on its own where it is not reported."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

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
    ask_list,
    number,
)
from nbgpu.nvml.walk import Found

SHARE_WINDOW = timedelta(seconds=3)  # how far back a process's part of the utilization is looked for


def read_sample(found: Found, taken_at: datetime, *, shares: bool = False) -> UsageSample:
    """Return one reading of a device; a lost one is a sample with `problem` and no readings.

    With `shares`, each process has its part of the utilization, where that is reported.
    """
    if found.problem is not None:
        return UsageSample(found.uuid, taken_at, problem=found.problem, lost=found.lost)
    try:
        sample = _read(found.uuid, found.handle, taken_at)
        return replace(sample, processes=_add_shares(found.handle, sample.processes)) if shares else sample
    except DeviceLost as error:
        return UsageSample(found.uuid, taken_at, problem=str(error), lost=error.certain)


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


def _add_shares(handle: Handle, processes: tuple[GpuProcess, ...] | None) -> tuple[GpuProcess, ...] | None:
    """Return the processes with their newest utilization: 0 for those without one, None where there is no such call."""
    if processes is None:
        return None
    since = int((datetime.now(UTC) - SHARE_WINDOW).timestamp() * 1_000_000)  # microseconds of the wall clock
    listed = ask_list("nvmlDeviceGetProcessUtilization", handle, since)
    if listed is None:
        return processes
    newest = {int(each.pid): each for each in sorted(listed, key=lambda each: int(each.timeStamp))}
    return tuple(
        replace(process, gpu_utilization=number(newest[process.pid].smUtil) if process.pid in newest else 0)
        for process in processes
    )
