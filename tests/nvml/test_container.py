"""What a container sees: only the folders that `mounts` names, and a MIG instance's GPU in restricted mode."""

import os
import platform
from pathlib import Path

import pynvml
import pytest

from nbgpu.nvml.simulator import activate
from nbgpu.nvml.simulator.state import CONTAINER_ROOT


@pytest.fixture
def enter(simulate, tmp_path):
    """Lay out a container's view of a driver by links in place of mounts, and activate it."""

    def lay_out(driver, *uuids):
        inside = tmp_path / "inside"
        (inside / "devices").mkdir(parents=True)
        for host, container in driver.mounts(uuids).items():
            if container.is_relative_to(CONTAINER_ROOT):
                (inside / container.relative_to(CONTAINER_ROOT)).symlink_to(host)
        (inside / "lib").symlink_to(driver.library_folder)
        activate(inside)

    return lay_out


def mig_of(driver, number=0):
    migs = [uuid for uuid in driver.uuids if uuid.startswith("MIG-")]
    return sorted(migs, key=lambda uuid: int(driver.read(uuid)["index"]))[number]


def test_mounts_show_the_library_the_driver_and_the_devices(simulate):
    driver = simulate("mixed")
    mig = mig_of(driver)
    mounts = driver.mounts((mig,))
    triplet = f"{platform.machine()}-linux-gnu"
    assert {str(path) for path in mounts.values()} == {
        f"/usr/lib/{triplet}/libnvidia-ml.so.1",
        "/run/nbgpu-simulator/driver",
        f"/run/nbgpu-simulator/devices/{mig}",
    }
    assert all(path.exists() for path in mounts)
    assert driver.mounts(()) == {}
    with pytest.raises(KeyError, match="GPU-unknown"):
        driver.mounts(("GPU-unknown",))


def test_any_uid_can_read_what_is_mounted(simulate):
    driver = simulate("mixed")
    before = os.umask(0o077)
    try:
        driver.set(driver.uuids[0], gpu_utilization=5)
        driver.set_driver(driver_version="1.2")
    finally:
        os.umask(before)
    for path in (*driver.mounts(driver.uuids), *driver.root.glob("d*/**/state")):
        assert path.stat().st_mode & 0o444 == 0o444, path
        if path.is_dir():
            assert path.stat().st_mode & 0o555 == 0o555, path


def test_a_whole_gpu_is_alone_and_number_0(simulate, enter, inventory):
    driver = simulate("8xA100")
    last = next(uuid for uuid in driver.uuids if driver.read(uuid)["index"] == "7")
    enter(driver, last)
    (device,) = inventory.snapshot().devices
    assert (device.uuid, device.index, device.problem) == (last, 0, None)
    assert inventory.sample()[0].gpu_utilization == 0


def test_a_mig_instance_is_listed_though_its_gpu_may_not_be_read(simulate, enter, inventory):
    driver = simulate("h100-mig")
    mig = mig_of(driver, 3)
    enter(driver, mig)
    snapshot = inventory.snapshot()
    assert snapshot.problem is None
    parent, instance = snapshot.devices
    assert parent.uuid == instance.parent_uuid == driver.read(mig)["parent"]
    assert (parent.name, parent.memory_total, parent.mig_enabled) == ("NVIDIA H100 80GB HBM3", None, True)
    assert (instance.uuid, instance.mig_profile) == (mig, "1g.10gb")
    assert instance.memory_total == 9728 * 2**20
    of_parent, of_instance = inventory.sample()
    assert (of_parent.memory_used, of_parent.gpu_utilization, of_parent.processes) == (None, None, None)
    assert of_parent.problem is None
    assert of_instance.memory_used == 12 * 2**20


@pytest.mark.parametrize("calls", [["nvmlDeviceGetName"], ["nvmlDeviceGetUUID"], ["nvmlDeviceGetMemoryInfo"]])
def test_faults_of_the_instance_are_not_its_gpus(simulate, enter, inventory, calls):
    driver = simulate("h100-mig")
    mig = mig_of(driver)
    driver.set(mig, **{f"fault.{call}": "UNKNOWN" for call in calls})
    enter(driver, mig)
    parent, instance = inventory.snapshot().devices
    assert parent.name == "NVIDIA H100 80GB HBM3"
    assert instance.parent_uuid == parent.uuid


def test_without_its_name_an_instance_has_its_profile_from_slices_and_memory(simulate, enter, inventory):
    driver = simulate("mixed")
    mig = mig_of(driver, 4)
    driver.set(mig, **{"fault.nvmlDeviceGetName": "NO_PERMISSION"})
    enter(driver, mig)
    assert inventory.snapshot().devices[1].mig_profile == "2g.20gb"


def test_a_change_on_the_host_shows_inside(simulate, enter, inventory):
    driver = simulate("h100-mig")
    mig = mig_of(driver)
    enter(driver, mig)
    inventory.sample()
    driver.set(mig, memory_used=123 * 2**20, processes="99:-")
    sample = inventory.sample()[1]
    assert sample.memory_used == 123 * 2**20
    assert sample.processes[0].memory_used is None


def test_the_raw_calls_keep_nvmls_semantics(simulate, enter):
    driver = simulate("h100-mig")
    mig = mig_of(driver)
    enter(driver, mig)
    pynvml.nvmlInit()
    try:
        assert pynvml.nvmlDeviceGetCount() == 1
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        with pytest.raises(pynvml.NVMLError_NoPermission):  # the class is the whole message
            pynvml.nvmlDeviceGetUtilizationRates(handle)
        instance = pynvml.nvmlDeviceGetHandleByUUID(mig)
        assert pynvml.nvmlDeviceIsMigDeviceHandle(instance).value == 1
        assert pynvml.nvmlDeviceGetGpuInstanceId(instance) == 7
        up = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)
        assert pynvml.nvmlDeviceGetUUID(up) == pynvml.nvmlDeviceGetUUID(handle)
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetUtilizationRates(instance)
        with pytest.raises(pynvml.NVMLError_NotFound):
            pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 1)
        with pytest.raises(pynvml.NVMLError_NotFound):
            pynvml.nvmlDeviceGetHandleByUUID("GPU-elsewhere")
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlDeviceGetHandleByIndex(1)
    finally:
        pynvml.nvmlShutdown()
    assert Path(driver.root).exists()
