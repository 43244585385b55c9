"""When the driver as a whole can't be asked: a sentence, no exception, and recovery."""

import os
import subprocess
import sys

import pytest

from nbgpu.nvml import NvmlInventory
from nbgpu.nvml.open import has_driver

INIT_ERRORS = {
    "LIB_RM_VERSION_MISMATCH": "The NVIDIA driver was updated: restart this machine",
    "DRIVER_NOT_LOADED": "is not loaded",
    "LIBRARY_NOT_FOUND": "libnvidia-ml.so.1 is not found",
    "NO_PERMISSION": "permissions of /dev/nvidiactl",
    "UNKNOWN": "systemctl daemon-reload",
    "FUNCTION_NOT_FOUND": "too old",
    "OPERATING_SYSTEM": "cgroup",
    "IN_USE": r"can't be asked (NVML error 19)",
}


@pytest.mark.case(26)
@pytest.mark.parametrize(("error", "sentence"), INIT_ERRORS.items())
def test_a_failed_start_is_a_sentence(simulate, inventory, error, sentence):
    driver = simulate("t4")
    driver.set_driver(**{"fault.nvmlInit": error})
    snapshot = inventory.snapshot()
    assert sentence in snapshot.problem
    assert snapshot.devices == ()
    assert inventory.sample() == ()  # nothing is known that could have a gap


def test_a_missing_tree_is_a_driver_that_is_not_loaded(simulate, inventory):
    driver = simulate("t4")
    (driver.root / "driver" / "state").unlink()
    assert "is not loaded" in inventory.snapshot().problem


@pytest.mark.skipif(has_driver(), reason="this machine has an NVIDIA driver")
def test_without_any_library_the_sentence_says_so():
    program = "from nbgpu.nvml import NvmlInventory as I; s = I().snapshot(); print(s.problem, s.simulated)"
    environ = {key: value for key, value in os.environ.items() if key != "NBGPU_SIMULATOR_ROOT"}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert "libnvidia-ml.so.1 is not found" in done.stdout
    assert done.stdout.endswith(" False\n")


def test_three_failed_samples_and_then_all_is_well(simulate, inventory, clock):
    driver = simulate("8xA100")
    before = inventory.sample()
    inventory.reconnect()
    driver.set_driver(**{"fault.nvmlInit": "UNKNOWN"})
    for _ in range(3):
        clock.forward(5)
        gap = inventory.sample()
        assert [sample.device_uuid for sample in gap] == [sample.device_uuid for sample in before]
        assert all("unknown error" in sample.problem and sample.memory_used is None for sample in gap)
    driver.set_driver(**{"fault.nvmlInit": None})
    clock.forward(5)
    assert all(sample.problem is None for sample in inventory.sample())


def test_a_failed_driver_is_not_asked_without_pause(simulate, inventory, clock):
    driver = simulate("t4")
    driver.set_driver(**{"fault.nvmlInit": "DRIVER_NOT_LOADED"})
    assert inventory.snapshot().problem
    driver.set_driver(**{"fault.nvmlInit": None})
    clock.forward(0.1)
    assert "is not loaded" in inventory.snapshot().problem  # still the last answer
    clock.forward(0.5)
    assert inventory.snapshot().problem is None


def test_a_clock_that_is_set_back_does_not_prolong_the_wait(simulate, inventory, clock):
    driver = simulate("t4")
    driver.set_driver(**{"fault.nvmlInit": "DRIVER_NOT_LOADED"})
    assert inventory.snapshot().problem
    driver.set_driver(**{"fault.nvmlInit": None})
    clock.forward(-3600)
    assert inventory.snapshot().problem is None


@pytest.mark.parametrize("error", ["UNINITIALIZED", "DRIVER_NOT_LOADED", "UNKNOWN", "LIB_RM_VERSION_MISMATCH"])
def test_a_driver_that_goes_away_while_in_use_comes_back(simulate, inventory, clock, error):
    driver = simulate("t4")
    assert inventory.snapshot().problem is None
    driver.set_driver(**{"fault.nvmlDeviceGetCount": error})
    assert inventory.snapshot().problem
    assert inventory.sample()[0].problem
    driver.set_driver(**{"fault.nvmlDeviceGetCount": None})
    clock.forward(5)
    assert inventory.snapshot().problem is None


def test_reconnect_sees_what_a_new_process_would_see(simulate, inventory):
    driver = simulate("t4")
    assert inventory.snapshot().problem is None
    driver.set_driver(**{"fault.nvmlInit": "UNKNOWN"})
    assert inventory.snapshot().problem is None
    inventory.reconnect()
    assert "systemctl daemon-reload" in inventory.snapshot().problem


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount", "nvmlSystemGetDriverVersion"])
def test_a_driver_that_hangs_is_bounded_and_recovers(simulate, clock, call, join_workers):
    driver = simulate("t4")
    inventory = NvmlInventory(now=clock, limit_s=0.05, start_limit_s=0.05)
    driver.set_driver(**{f"fault.{call}": "HANG"})
    for _ in range(3):
        snapshot = inventory.snapshot()
        assert "does not answer" in snapshot.problem
        assert snapshot.devices == ()
    driver.set_driver(**{f"fault.{call}": None})
    join_workers()
    assert NvmlInventory(now=clock).snapshot().problem is None
    inventory._limit_s = inventory._start_limit_s = 10
    assert inventory.snapshot().problem is None


def test_a_gpu_that_hangs_leaves_a_gap_for_all_and_one_thread(simulate, clock, join_workers):
    driver = simulate("8xA100")
    inventory = NvmlInventory(now=clock, limit_s=10)
    before = inventory.sample()
    inventory._limit_s = 0.05
    driver.set(before[0].device_uuid, **{"fault.nvmlDeviceGetPowerUsage": "HANG"})
    for _ in range(3):
        gap = inventory.sample()
        assert [sample.device_uuid for sample in gap] == [sample.device_uuid for sample in before]
        assert all("does not answer" in sample.problem for sample in gap)
    inventory.reconnect()  # does not wait for the stuck one either
    driver.unset(before[0].device_uuid, "fault.nvmlDeviceGetPowerUsage")
    join_workers()
    inventory._limit_s = inventory._start_limit_s = 10
    assert inventory.sample() == before
