"""Each call that fails takes its own fields with it and nothing else; a lost GPU takes no other GPU with it."""

from dataclasses import fields

import pytest

from nbgpu.core.devices import Device, UsageSample

ERRORS = ["NOT_SUPPORTED", "NO_PERMISSION", "UNKNOWN", "FUNCTION_NOT_FOUND", "NO_DATA", "no such error"]
READINGS = {
    "nvmlDeviceGetUtilizationRates": {"gpu_utilization", "memory_utilization"},
    "nvmlDeviceGetMemoryInfo": {"memory_used", "memory_total"},
    "nvmlDeviceGetTemperature nvmlDeviceGetTemperatureV": {"temperature"},
    "nvmlDeviceGetTemperature": set(),  # the other call answers
    "nvmlDeviceGetPowerUsage": {"power"},
    "nvmlDeviceGetEnforcedPowerLimit": set(),
    "nvmlDeviceGetEnforcedPowerLimit nvmlDeviceGetPowerManagementLimit": {"power_limit"},
    "nvmlDeviceGetClockInfo": {"sm_clock", "memory_clock"},
    "nvmlDeviceGetTotalEccErrors": {"ecc_corrected", "ecc_uncorrected"},
    "nvmlDeviceGetComputeRunningProcesses": {"processes"},
    "nvmlDeviceGetMigMode": set(),
    "nvmlDeviceGetUUID": set(),  # remembered from the snapshot
}
FACTS = {
    "nvmlDeviceGetName": {"name"},
    "nvmlDeviceGetMemoryInfo": {"memory_total"},
    "nvmlDeviceGetArchitecture": {"architecture"},
    "nvmlDeviceGetCudaComputeCapability": {"compute_capability"},
    "nvmlDeviceGetPciInfo": {"pci_bus_id"},
    "nvmlDeviceGetNumaNodeId": {"numa_node"},
    "nvmlDeviceGetP2PStatus": set(),  # the links tell as well
    "nvmlDeviceGetP2PStatus nvmlDeviceGetNvLinkState": {"nvlink_peers"},
    "nvmlDeviceGetP2PStatus nvmlDeviceGetNvLinkRemotePciInfo": {"nvlink_peers"},
    "nvmlDeviceGetMaxMigDeviceCount": set(),
    "nvmlDeviceGetUUID": set(),
}


def faults(calls: str, error: str) -> dict[str, str]:
    return {f"fault.{call}": error for call in calls.split()}


def changed(kind: type, before: object, after: object) -> dict[str, object]:
    names = [field.name for field in fields(kind) if field.compare]
    return {name: getattr(after, name) for name in names if getattr(after, name) != getattr(before, name)}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("calls", READINGS)
def test_a_reading_degrades_alone(simulate, inventory, calls, error):
    driver = simulate("8xA100")
    first = inventory.snapshot().devices[0].uuid
    before = inventory.sample()
    driver.set(first, **faults(calls, error))
    after = inventory.sample()
    assert changed(UsageSample, before[0], after[0]) == dict.fromkeys(READINGS[calls])
    assert after[1:] == before[1:]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("calls", FACTS)
def test_a_fact_degrades_alone(simulate, inventory, calls, error):
    driver = simulate("8xA100")
    before = inventory.snapshot().devices
    driver.set(before[0].uuid, **faults(calls, error))
    after = inventory.snapshot().devices
    missing = {name: frozenset() if name == "nvlink_peers" else None for name in FACTS[calls]}
    assert changed(Device, before[0], after[0]) == missing
    assert after[1:] == before[1:]


@pytest.mark.parametrize(
    ("call", "field"),
    [("nvmlSystemGetDriverVersion", "driver_version"), ("nvmlSystemGetCudaDriverVersion", "cuda_version")],
)
@pytest.mark.parametrize("error", ERRORS)
def test_versions_degrade_alone(simulate, inventory, call, field, error):
    driver = simulate("t4")
    driver.set_driver(**faults(call, error))
    snapshot = inventory.snapshot()
    assert getattr(snapshot, field) is None
    assert snapshot.problem is None
    assert len(snapshot.devices) == 1


@pytest.mark.case(24)
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"\xf8\xff\x01", None),
        (b"\xf8Tesla T4\xff", "Tesla T4"),
        ("NVIDIA A10", "NVIDIA A10"),
        ("", None),
        ("  ", None),
        ("Größte GPU", "Größte GPU"),
        ("x" * 95, "x" * 95),
        ("x" * 200, None),  # longer than NVML's buffer: the call fails
    ],
)
def test_names_are_tolerated(simulate, inventory, name, shown):
    driver = simulate("t4")
    driver.set(driver.uuids[0], name=name)
    (device,) = inventory.snapshot().devices
    assert device.name == shown
    assert device.memory_total == 15 * 2**30


def test_a_garbage_name_hides_no_mig_profile(simulate, inventory):
    driver = simulate("h100-mig")
    for uuid in driver.uuids:
        driver.set(uuid, name=b"\xff\xfe")
    migs = [device for device in inventory.snapshot().devices if device.is_mig]
    assert [mig.mig_profile for mig in migs] == ["1g.10gb"] * 7


def test_a_garbage_bus_id_is_tolerated(simulate, inventory):
    driver = simulate("t4")
    driver.set(driver.uuids[0], pci_bus_id="not:a:bus")
    assert inventory.snapshot().devices[0].pci_bus_id is None


@pytest.mark.parametrize("call", ["*", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"])
@pytest.mark.parametrize(("error", "sentence"), [("GPU_IS_LOST", "is lost"), ("RESET_REQUIRED", "needs a reset")])
def test_a_lost_gpu_is_told_and_the_others_go_on(simulate, inventory, call, error, sentence):
    driver = simulate("8xA100")
    before, samples = inventory.snapshot().devices, inventory.sample()
    driver.set(before[3].uuid, **faults(call, error))
    after = inventory.snapshot()
    assert after.problem is None
    lost = after.devices[3]
    assert sentence in lost.problem
    assert (lost.uuid, lost.name, lost.memory_total) == (before[3].uuid, before[3].name, before[3].memory_total)
    assert all(device.problem is None for device in after.devices if device is not lost)
    sample = inventory.sample()
    assert sentence in sample[3].problem
    assert (sample[3].memory_used, sample[3].device_uuid) == (None, lost.uuid)
    assert sample[:3] + sample[4:] == samples[:3] + samples[4:]
    driver.unset(before[3].uuid, f"fault.{call}")
    assert inventory.snapshot().devices == before


def test_a_gpu_lost_before_it_was_ever_seen_has_a_name_of_its_own(simulate, inventory):
    driver = simulate("8xA100")
    driver.set(next(uuid for uuid in driver.uuids if driver.read(uuid)["index"] == "2"), **faults("*", "GPU_IS_LOST"))
    devices = inventory.snapshot().devices
    assert len({device.uuid for device in devices}) == 8
    assert (devices[2].uuid, devices[2].index) == ("GPU-lost-2", 2)
    assert devices[2].problem


def test_a_gpu_lost_on_its_first_reads_after_the_handle_keeps_its_uuid(simulate, inventory):
    driver = simulate("t4")
    driver.set(driver.uuids[0], **faults("nvmlDeviceGetName", "GPU_IS_LOST"))
    (device,) = inventory.snapshot().devices
    assert device.uuid == driver.uuids[0]
    assert "is lost" in device.problem


def test_a_lost_gpu_takes_its_mig_instances_along(simulate, inventory):
    driver = simulate("h100-mig")
    before = inventory.snapshot().devices
    driver.set(before[0].uuid, **faults("*", "GPU_IS_LOST"))
    after = inventory.snapshot().devices
    assert [device.uuid for device in after] == [device.uuid for device in before]
    assert [device.problem is not None for device in after] == [True] * 8 + [False]
    assert [device.mig_profile for device in after] == [device.mig_profile for device in before]
    assert [sample.problem is not None for sample in inventory.sample()] == [True] * 8 + [False]


def test_one_mig_instance_can_be_lost_alone(simulate, inventory):
    driver = simulate("h100-mig")
    before = inventory.snapshot().devices
    driver.set(before[2].uuid, **faults("*", "GPU_IS_LOST"))
    after = inventory.snapshot().devices
    assert [device.uuid for device in after] == [device.uuid for device in before]
    assert [device.uuid for device in after if device.problem] == [before[2].uuid]


def test_a_device_folder_that_vanishes_is_no_error(simulate, inventory):
    driver = simulate("8xA100")
    first = inventory.snapshot().devices[0].uuid
    driver.remove(first)
    after = inventory.snapshot()
    assert after.problem is None
    assert first not in after.by_uuid
    assert len(inventory.sample()) == 7
