"""The pool as the API answers it."""

from pydantic import Field

from nbgpu.service.operations import Answer, Instant


class HolderAnswer(Answer):
    """A server that holds a device, or a slot of it; `is_lost`: the device failed under it."""

    user: str
    server: str
    flavor: str
    since: Instant
    is_lost: bool


class DeviceAnswer(Answer):
    """A GPU or MIG instance; what it does not report is null."""

    uuid: str
    name: str | None = Field(description="Of a MIG instance its profile.")
    index: int | None
    state: str = Field(description="free, held, partly, cut, out, faulty or not-leased.")
    why: str | None = Field(description="Why it is not leased.")
    held_back_since: Instant | None
    holders: list[HolderAnswer]
    slots: int
    utilization_percent: int | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    temperature_celsius: int | None
    power_watts: float | None
    power_limit_watts: float | None
    instances: list["DeviceAnswer"]


class PoolAnswer(Answer):
    """All devices; `problem`: why the driver can't be asked now, and then they are of the past."""

    devices: list[DeviceAnswer]
    problem: str | None
    sampled_at: Instant | None
    is_stale: bool
