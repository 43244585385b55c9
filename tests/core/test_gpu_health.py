"""When a device is at fault, and when it comes back."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from nbgpu.core.devices import UsageSample
from nbgpu.core.gpu_health import (
    CLEAN_SAMPLES,
    FAILED_SAMPLES,
    DeviceHealth,
    Fault,
    FaultKind,
    Quarantine,
    find_affected,
    judge,
    judge_missing,
    may_return,
)

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
GOOD = UsageSample("GPU-0", NOON, ecc_uncorrected=2)
BEFORE = DeviceHealth(NOON - timedelta(seconds=2), ecc_uncorrected=2, clean=9, clean_since=NOON - timedelta(seconds=18))


@pytest.mark.parametrize(
    ("why", "before", "sample", "xids", "kind"),
    [
        ("all well", BEFORE, GOOD, (), None),
        ("first sight: old errors are nobody's", DeviceHealth(), GOOD, (), None),
        ("a new uncorrectable error", BEFORE, replace(GOOD, ecc_uncorrected=3), (), FaultKind.ECC),
        ("the driver was loaded anew", BEFORE, replace(GOOD, ecc_uncorrected=0), (), None),
        ("loaded anew, and an error since", BEFORE, replace(GOOD, ecc_uncorrected=1), (), FaultKind.ECC),
        ("not reported is no error", BEFORE, replace(GOOD, ecc_uncorrected=None), (), None),
        ("fallen off the bus", BEFORE, GOOD, (79,), FaultKind.XID),
        ("a user's program failed", BEFORE, GOOD, (13, 31, 43, 45, 68, 109), None),
        ("a serious one among them", BEFORE, GOOD, (31, 48), FaultKind.XID),
        ("lost", BEFORE, replace(GOOD, problem="Lost.", lost=True), (), FaultKind.LOST),
        ("unreadable for a moment", BEFORE, replace(GOOD, problem="Unknown."), (), None),
        ("unreadable for long", replace(BEFORE, failed=2), replace(GOOD, problem="Unknown."), (), FaultKind.FAILED),
    ],
)
def test_a_fault_is_told(why, before, sample, xids, kind):
    after, fault = judge(before, sample, xids)
    assert (fault.kind if fault else None) == kind, why
    if fault is not None:
        assert fault.cause
    if fault is not None or sample.problem is not None:
        assert after.last_good_at == before.last_good_at, "the sample that shows a fault is not a good one"
        assert after.clean == 0
    else:
        assert after.last_good_at == NOON


def test_an_error_is_told_once():
    after, fault = judge(BEFORE, replace(GOOD, ecc_uncorrected=3))
    assert fault is not None
    assert judge(after, replace(GOOD, ecc_uncorrected=3))[1] is None


def test_a_device_that_the_driver_no_longer_shows_is_at_fault_after_some_looks():
    health, faults = BEFORE, []
    for _ in range(FAILED_SAMPLES):
        health, fault = judge_missing(health)
        faults.append(fault)
    assert [fault.kind if fault else None for fault in faults] == [None, None, FaultKind.GONE]
    assert health.last_good_at == BEFORE.last_good_at


def test_an_error_is_not_missed_because_a_sample_between_did_not_report_any():
    silent, _ = judge(BEFORE, replace(GOOD, ecc_uncorrected=None))
    _, fault = judge(silent, replace(GOOD, ecc_uncorrected=3))
    assert fault is not None


def test_what_is_cut_from_a_device_shares_its_fault():
    parents = {"MIG-1": "GPU-0", "MIG-2": "GPU-0", "MIG-3": "GPU-1"}
    assert find_affected("GPU-0", parents) == ("GPU-0", "MIG-1", "MIG-2")
    assert find_affected("MIG-1", parents) == ("MIG-1",)


TEN = timedelta(minutes=10)
CLEAN = DeviceHealth(NOON, clean=CLEAN_SAMPLES, clean_since=NOON - TEN)
HELD = Quarantine("GPU-0", NOON - timedelta(hours=1), Fault(FaultKind.ECC, "Errors."))


@pytest.mark.parametrize(
    ("why", "kind", "health", "return_after", "in_use", "returns"),
    [
        ("only an administrator returns it", FaultKind.ECC, CLEAN, None, False, False),
        ("the site says after ten minutes", FaultKind.ECC, CLEAN, TEN, False, True),
        ("not clean for so long", FaultKind.ECC, CLEAN, TEN * 2, False, False),
        ("too few samples", FaultKind.ECC, replace(CLEAN, clean=CLEAN_SAMPLES - 1), TEN, False, False),
        ("it fails", FaultKind.ECC, DeviceHealth(failed=3), timedelta(0), False, False),
        ("a container lost it and is still there", FaultKind.CONTAINER, CLEAN, None, True, False),
        ("a container had lost it and is gone", FaultKind.CONTAINER, CLEAN, None, False, True),
    ],
)
def test_a_device_comes_back_by_itself(why, kind, health, return_after, in_use, returns):
    quarantine = replace(HELD, fault=Fault(kind, "A cause."))
    assert may_return(quarantine, health, NOON, return_after=return_after, in_use=in_use) is returns, why


def test_what_somebody_took_out_of_service_never_comes_back_by_itself():
    quarantine = replace(HELD, fault=Fault(FaultKind.CORDON, "Its fan is loud."))
    assert not may_return(quarantine, CLEAN, NOON, return_after=timedelta(0), in_use=False)
    assert may_return(HELD, CLEAN, NOON, return_after=timedelta(0), in_use=False)


def test_clean_time_counts_from_the_quarantine():
    quarantine = replace(HELD, since=NOON - timedelta(minutes=1))
    assert not may_return(quarantine, CLEAN, NOON, return_after=TEN, in_use=False)
