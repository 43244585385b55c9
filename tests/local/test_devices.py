"""What a server sees of the devices, asked through the real pynvml from a process with the server's environment."""

import json
import subprocess
import sys
from functools import partial

import pytest

from nbgpu.core.devices import Device
from nbgpu.nvml.simulator.process_view import show_devices
from nbgpu.nvml.simulator.state import SimulatedDriver
from nbgpu.spawner.local_devices import ProcessAccess
from nbgpu.spawner.local_processes import read_environment
from support.users import start

CODE = """
import json, pynvml
try:
    pynvml.nvmlInit()
    handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
    print(json.dumps([pynvml.nvmlDeviceGetUUID(handle) for handle in handles]))
except pynvml.NVMLError_LibraryNotFound:
    print("null")
"""


@pytest.fixture
def driver(tmp_path) -> SimulatedDriver:
    driver = SimulatedDriver(tmp_path / "simulator")
    driver.create("8xA100")
    return driver


@pytest.fixture
def local(make_local, driver):
    """A site whose devices are the simulated driver's."""
    local = make_local(access=ProcessAccess(partial(show_devices, driver)))
    local.site.inventory.devices = tuple(
        Device(uuid=uuid, index=index, name="NVIDIA A100", memory_total=2**36)
        for index, uuid in enumerate(driver.uuids)
    )
    return local


def visible(local, server: str) -> list[str] | None:
    """Return what NVML shows in a server; None where it has no driver."""
    environment = read_environment(local.record(server)["pid"])
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True, timeout=20
    )
    return json.loads(done.stdout)


async def test_two_users_see_their_own_devices_and_a_cpu_server_none(local):
    for name, profile in (("ann", "two"), ("bob", "one"), ("cid", "cpu")):
        await start(local.users[name], profile=profile)
    ann, bob = visible(local, "ann"), visible(local, "bob")
    assert sorted(ann) == sorted(local.users["ann"].spawner.device_uuids)
    assert bob == list(local.users["bob"].spawner.device_uuids)
    assert not set(ann) & set(bob)
    assert visible(local, "cid") is None


async def test_readings_are_live_and_slots_of_one_gpu_show_it_to_both(local, driver):
    for name in ("ann", "bob"):
        await start(local.users[name], profile="shared")
    assert visible(local, "ann") == visible(local, "bob")
    (uuid,) = visible(local, "ann")
    root = SimulatedDriver(driver.root / "views" / next((driver.root / "views").iterdir()).name)
    driver.set(uuid, gpu_utilization=77)
    assert root.read(uuid)["gpu_utilization"] == "77"


def test_a_view_is_the_same_for_the_same_devices(driver):
    one, two, _ = driver.uuids[:3]
    assert show_devices(driver, [one, two]) == show_devices(driver, [two, one])
    assert show_devices(driver, [one]) != show_devices(driver, [two])
    assert show_devices(driver, []) == {}
    with pytest.raises(KeyError, match="GPU-none"):
        show_devices(driver, ["GPU-none"])


def test_a_real_driver_needs_variables_only():
    grant = ProcessAccess().grant(["GPU-1", "MIG-2"])
    assert grant.environment == dict.fromkeys(("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"), "GPU-1,MIG-2")
    assert ProcessAccess().grant([]).environment == {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}
    assert grant.host_config == {}
