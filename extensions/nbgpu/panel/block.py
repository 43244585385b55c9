"""What a block of code needed of the GPUs: peak memory and busy share, to choose the next flavor by."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nbgpu.panel.frames import DeviceFrame, Frame
from nbgpu.panel.sampler import Sampler
from nbgpu.panel.shared import shared_sampler
from nbgpu.panel.words import NOT_REPORTED, gib, title

AT_THE_ENDS_S = 2.0  # how long to wait for the first reading and for the last


@dataclass(slots=True)
class DeviceUse:
    """What one device was seen to do. None: not reported."""

    title: str
    memory_total: int | None = None  # bytes
    peak_memory: int | None = None  # bytes
    utilizations: int = 0  # how many readings `busy_sum` is of
    busy_sum: int = 0  # percent

    @property
    def busy(self) -> float | None:
        """Percent of the block in which something ran on the device."""
        return self.busy_sum / self.utilizations if self.utilizations else None

    def add(self, each: DeviceFrame) -> None:
        """Take one reading in."""
        sample = each.sample
        if sample.memory_total is not None:
            self.memory_total = sample.memory_total
        if sample.memory_used is not None:
            self.peak_memory = max(self.peak_memory or 0, sample.memory_used)
        if sample.gpu_utilization is not None:
            self.utilizations += 1
            self.busy_sum += sample.gpu_utilization


@dataclass(slots=True)
class Use:
    """What a block of code was seen to use; complete when the block has ended."""

    devices: dict[str, DeviceUse] = field(default_factory=dict)  # by UUID
    seconds: float = 0.0
    readings: int = 0
    problem: str | None = None
    _began: float | None = None

    def add(self, frame: Frame) -> None:
        """Take one frame in; a failed one counts as no reading."""
        at = frame.taken_at.timestamp()
        self._began = at if self._began is None else self._began
        self.seconds = at - self._began
        self.problem = frame.problem
        self.readings += 1
        for number, each in enumerate(frame.devices):
            self.devices.setdefault(each.device.uuid, DeviceUse(title(each, number))).add(each)

    def __str__(self) -> str:
        if not self.devices:
            return f"No GPU was seen. {self.problem or ''}".strip()
        parts = [_describe(use) for use in self.devices.values()]
        return f"{'; '.join(parts)} ({self.seconds:.0f} s, {self.readings} readings)"


def _describe(use: DeviceUse) -> str:
    busy = NOT_REPORTED if use.busy is None else f"{use.busy:.0f} %"
    return f"{use.title}: peak memory {gib(use.peak_memory)} of {gib(use.memory_total)} GiB, busy {busy}"


@contextmanager
def monitor(*, sampler: Sampler | None = None, quiet: bool = False) -> Iterator[Use]:
    """Record what the block uses, and print it as one line at its end unless `quiet`.

    Memory that is taken and given back between two readings, a second apart, is not seen. The readings are of the
    device: on a shared one, of all who use it.
    """
    chosen, use = sampler or shared_sampler(), Use()
    stop = chosen.subscribe(use.add)
    try:
        chosen.next_frame(wait_s=AT_THE_ENDS_S)
        yield use
        chosen.next_frame(wait_s=AT_THE_ENDS_S)
    finally:
        stop()
        if not quiet:
            print(use)
