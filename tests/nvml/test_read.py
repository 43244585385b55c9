"""What the sampler reads: all of a sample, Xids once, processes' parts, and a failure of the driver as an error."""

from datetime import timedelta

import pytest

from nbgpu.core.errors import DriverError
from nbgpu.nvml import NvmlInventory
from nbgpu.nvml.backoff import BackOff


def test_a_reading_has_what_a_sample_has(simulate, inventory):
    simulate("mixed")
    readings = inventory.read()
    assert readings.samples == inventory.sample()
    migs = [device for device in inventory.snapshot().devices if device.is_mig]
    assert readings.parents == {mig.uuid: mig.parent_uuid for mig in migs}
    assert readings.xids == {}


def test_an_xid_is_told_once_and_only_of_its_device(simulate, inventory):
    driver = simulate("8xA100")
    first, second, *_ = driver.uuids
    driver.raise_xid(first, 48)
    assert inventory.read().xids == {}, "it was before anybody watched"
    driver.raise_xid(first, 79)
    driver.raise_xid(first, 13)
    driver.raise_xid(second, 31)
    assert inventory.read().xids == {first: (79, 13), second: (31,)}
    assert inventory.read().xids == {}


def test_devices_without_events_are_read_like_any(simulate, inventory):
    driver = simulate("t4")
    driver.set(driver.uuids[0], **{"fault.nvmlDeviceRegisterEvents": "NOT_SUPPORTED"})
    assert inventory.read().xids == {}
    driver.raise_xid(driver.uuids[0], 79)
    (sample,) = inventory.read().samples
    assert sample.problem is None


def test_xids_are_watched_again_after_the_driver_was_away(simulate, clock):
    driver = simulate("t4")
    inventory = NvmlInventory(now=clock)
    inventory.read()
    driver.set_driver(**{"fault.nvmlDeviceGetCount": "UNINITIALIZED"})
    with pytest.raises(DriverError):
        inventory.read()
    driver.set_driver(**{"fault.nvmlDeviceGetCount": None})
    clock.forward(5)
    inventory.read()
    driver.raise_xid(driver.uuids[0], 79)
    assert inventory.read().xids == {driver.uuids[0]: (79,)}


@pytest.mark.parametrize(
    ("why", "utilization", "shares"),
    [
        ("two at work, one idle", "11:60,12:30", {11: 60, 12: 30, 13: 0}),
        ("nobody at work", "", {11: 0, 12: 0, 13: 0}),
        ("no such call", None, {11: None, 12: None, 13: None}),
    ],
)
def test_processes_have_their_parts_where_the_driver_tells(simulate, inventory, why, utilization, shares):
    driver = simulate("t4")
    (uuid,) = driver.uuids
    driver.set(uuid, processes="11:1000,12:2000,13:", process_utilization=utilization)
    (sample,) = inventory.read(shared={uuid}).samples
    assert {process.pid: process.gpu_utilization for process in sample.processes} == shares, why
    assert [process.memory_used for process in sample.processes] == [1000, 2000, None]
    (plain,) = inventory.read().samples
    assert [process.gpu_utilization for process in plain.processes] == [None] * 3


@pytest.mark.parametrize(("error", "certain"), [("GPU_IS_LOST", True), ("RESET_REQUIRED", True), ("UNKNOWN", False)])
def test_a_lost_device_says_whether_it_is_certain(simulate, inventory, error, certain):
    driver = simulate("8xA100")
    before = inventory.read().samples
    driver.set(before[3].device_uuid, **{"fault.*": error})
    after = inventory.read().samples[3]
    assert (after.device_uuid, after.lost) == (before[3].device_uuid, certain)
    assert after.problem


@pytest.mark.case(27)
def test_a_driver_that_failed_three_times_is_read_at_the_first_look_after(simulate, clock):
    driver = simulate("8xA100")
    inventory = NvmlInventory(now=clock, back_off=BackOff(longest=timedelta(seconds=1)))
    assert len(inventory.read().samples) == 8
    driver.set_driver(**{"fault.*": "UNINITIALIZED"})
    for _ in range(3):
        with pytest.raises(DriverError):
            inventory.read()
        clock.forward(2)
    driver.set_driver(**{"fault.*": None})
    assert len(inventory.read().samples) == 8
