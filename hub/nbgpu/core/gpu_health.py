"""When a device is at fault, and when it may be leased again. Pure.

A driver that can't be asked says nothing of any device. A fault is the device's own: it is lost, it reports an
uncorrectable memory error or an Xid, or it can't be read though the others can.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from nbgpu.core.devices import UsageSample

FAILED_SAMPLES = 3  # in a row, for faults that a device may show for a moment
CLEAN_SAMPLES = 5  # in a row, before a device is leased again
NO_IDENTITY = ("GPU-lost-", "MIG-lost-")  # UUIDs of devices that were lost before anybody knew theirs
# What a user's program can cause; the device is as good as before. The same as in NVIDIA's device plugin.
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})


class FaultKind(StrEnum):
    """What was wrong."""

    LOST = "lost"  # it fell off the bus, or needs a reset
    FAILED = "failed"  # it can't be read, again and again
    GONE = "gone"  # the driver no longer has it
    ECC = "ecc"
    XID = "xid"
    CONTAINER = "container"  # a server's container lost it; the machine has not
    CORDON = "cordon"  # no fault: an administrator has taken it out of service; who runs on it goes on


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, with its cause as a sentence."""

    kind: FaultKind
    cause: str


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A device that is not leased, for a fault or because somebody has taken it out of service."""

    device_uuid: str
    since: datetime
    fault: Fault
    last_good_at: datetime | None = None
    returned_at: datetime | None = None
    returned_by: str | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """A device that a running session has lost."""

    session_id: str
    device_uuid: str
    lost_at: datetime  # its last good sample
    noticed_at: datetime


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """What is known of a device as of its last sample."""

    last_good_at: datetime | None = None
    ecc_uncorrected: int | None = None  # as counted at that sample
    failed: int = 0  # samples in a row
    clean: int = 0  # samples in a row
    clean_since: datetime | None = None


def judge(health: DeviceHealth, sample: UsageSample, xids: Iterable[int] = ()) -> tuple[DeviceHealth, Fault | None]:
    """Return what is known after a sample, and the fault that it shows; `xids` came since the sample before."""
    if sample.problem is not None:
        return _judge_failed(health, sample)
    fault = _find_xid(xids) or _find_ecc(health.ecc_uncorrected, sample.ecc_uncorrected)
    errors = health.ecc_uncorrected if sample.ecc_uncorrected is None else sample.ecc_uncorrected
    if fault is not None:
        return replace(health, ecc_uncorrected=errors, failed=0, clean=0, clean_since=None), fault
    return (
        DeviceHealth(
            last_good_at=sample.taken_at,
            ecc_uncorrected=errors,
            clean=health.clean + 1,
            clean_since=health.clean_since or sample.taken_at,
        ),
        None,
    )


def judge_missing(health: DeviceHealth) -> tuple[DeviceHealth, Fault | None]:
    """Return what is known of a device that the driver, which was asked, did not show."""
    health = replace(health, failed=health.failed + 1, clean=0, clean_since=None)
    gone = Fault(FaultKind.GONE, "The driver no longer has it. Look at `dmesg | grep -i nvrm`.")
    return health, gone if health.failed >= FAILED_SAMPLES else None


def find_affected(device_uuid: str, parents: Mapping[str, str]) -> tuple[str, ...]:
    """Return the device and what is cut from it; `parents` maps MIG instances to their GPU."""
    return (device_uuid, *(mig for mig, parent in parents.items() if parent == device_uuid))


def may_return(
    quarantine: Quarantine,
    health: DeviceHealth,
    now: datetime,
    *,
    return_after: timedelta | None,
    in_use: bool,
) -> bool:
    """Whether a device goes back to the pool without an administrator.

    One that only a container had lost does when it reads clean and no session is on it (`in_use`) any more. Others do
    where the site says so: after reading clean for `return_after`. What somebody took out of service stays so.
    """
    if quarantine.fault.kind is FaultKind.CORDON:
        return False
    if health.clean < CLEAN_SAMPLES or health.clean_since is None:
        return False
    if quarantine.fault.kind is FaultKind.CONTAINER:
        return not in_use
    return return_after is not None and now - max(health.clean_since, quarantine.since) >= return_after


def find_objection(samples: Iterable[UsageSample], uuids: Collection[str]) -> str | None:
    """Return why devices can't go back to the pool by a reading of all; None where they read well or are not there.

    A device that is lost can't tell its UUID: while one is, it may be any that is missing.
    """
    found = tuple(samples)
    missing = set(uuids) - {each.device_uuid for each in found}
    return next(
        (
            each.problem
            for each in found
            if each.problem is not None
            and (each.device_uuid in uuids or (missing and each.device_uuid.startswith(NO_IDENTITY)))
        ),
        None,
    )


def _judge_failed(health: DeviceHealth, sample: UsageSample) -> tuple[DeviceHealth, Fault | None]:
    cause = sample.problem or ""
    health = replace(health, failed=health.failed + 1, clean=0, clean_since=None)
    if sample.lost:
        return health, Fault(FaultKind.LOST, cause)
    return health, Fault(FaultKind.FAILED, cause) if health.failed >= FAILED_SAMPLES else None


def _find_xid(xids: Iterable[int]) -> Fault | None:
    serious = [xid for xid in xids if xid not in APPLICATION_XIDS]
    if not serious:
        return None
    numbers = ", ".join(map(str, dict.fromkeys(serious)))
    return Fault(FaultKind.XID, f"The driver reported Xid {numbers}. Look at `dmesg | grep Xid`.")


def _find_ecc(before: int | None, now: int | None) -> Fault | None:
    """A counter that fell was reset with its driver: what it counts is new."""
    if before is None or now is None:
        return None
    new = now - before if now >= before else now
    if new == 0:
        return None
    return Fault(FaultKind.ECC, f"{new} uncorrectable memory error{'s' if new > 1 else ''} (ECC). Reset this GPU.")
