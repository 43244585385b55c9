"""Flavors, the entries of the menu, and what each claims of the machine."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class FlavorKind(StrEnum):
    """How a flavor's servers get at a GPU."""

    GPU = "gpu"  # one or more whole GPUs, nobody else on them
    MIG = "mig"  # one MIG instance: a hardware slice with memory of its own
    SHARED = "shared"  # one of n slots of a GPU: time-sliced, not isolated
    CPU = "cpu"  # no GPU at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What an allocation must satisfy."""

    kind: FlavorKind
    gpus: int = 0
    model: str | None = None  # part of the device's name; None takes any
    mig_profile: str | None = None
    slots: int = 1  # slots that each GPU is cut into


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """One entry of the menu."""

    slug: str
    display_name: str
    kind: FlavorKind
    cpus: float
    memory: int  # bytes; no swap beyond it
    shm: int  # bytes of /dev/shm, counted in `memory`
    pids: int
    images: tuple[str, ...]  # image slugs; the first is the default
    price_per_hour: int  # micro-units of the billing currency
    host_price_per_hour: int = 0  # the part of it that a flavor with GPUs has for CPU, RAM and disk
    description: str = ""
    groups: frozenset[str] = frozenset()  # who may take it; empty means everybody
    time_limit: timedelta | None = None
    gpus: int = 0
    model: str | None = None
    mig_profile: str | None = None
    slots: int = 1
    max_servers: int | None = None  # servers of this flavor at one time; None is no limit

    @property
    def claim(self) -> Claim:
        """What a server of this flavor takes from the pool."""
        return Claim(kind=self.kind, gpus=self.gpus, model=self.model, mig_profile=self.mig_profile, slots=self.slots)

    def allows(self, groups: frozenset[str]) -> bool:
        """Whether a member of `groups` may take this flavor."""
        return not self.groups or bool(self.groups & groups)
