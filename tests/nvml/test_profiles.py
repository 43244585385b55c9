"""Each simulated machine, read through the real binding."""

from dataclasses import fields

import pytest

from nbgpu.core.devices import UsageSample
from nbgpu.nvml.simulator import PROFILES


@pytest.mark.parametrize(
    ("profile", "gpus", "migs"), [("8xA100", 8, 0), ("h100-mig", 2, 7), ("mixed", 4, 5), ("t4", 1, 0), ("none", 0, 0)]
)
def test_each_profile_shows_its_devices(simulate, inventory, profile, gpus, migs):
    simulate(profile)
    snapshot = inventory.snapshot()
    assert snapshot.problem is None
    assert snapshot.simulated
    assert (snapshot.driver_version, snapshot.cuda_version) == ("570.86.15", (12, 8))
    assert sum(not device.is_mig for device in snapshot.devices) == gpus
    assert sum(device.is_mig for device in snapshot.devices) == migs
    assert set(snapshot.by_uuid) == set(PROFILES[profile])
    assert [sample.device_uuid for sample in inventory.sample()] == [device.uuid for device in snapshot.devices]


def test_eight_a100_are_all_linked(simulate, inventory):
    simulate("8xA100")
    devices = inventory.snapshot().devices
    everyone = {device.uuid for device in devices}
    assert [device.index for device in devices] == list(range(8))
    for device in devices:
        assert device.nvlink_peers == everyone - {device.uuid}
        assert (device.architecture, device.compute_capability) == ("Ampere", (8, 0))
        assert device.memory_total == 80 * 2**30
        assert not device.mig_enabled
    assert [device.numa_node for device in devices] == [0] * 4 + [1] * 4
    assert len({device.pci_bus_id for device in devices}) == 8


def test_a_mig_instance_has_its_profile_and_the_place_of_its_gpu(simulate, inventory):
    simulate("mixed")
    devices = inventory.snapshot().devices
    parent = next(device for device in devices if device.mig_enabled)
    migs = [device for device in devices if device.is_mig]
    assert [mig.mig_profile for mig in migs] == ["1g.10gb"] * 3 + ["2g.20gb"] * 2
    for mig in migs:
        assert mig.parent_uuid == parent.uuid
        assert mig.name == f"NVIDIA H100 80GB HBM3 MIG {mig.mig_profile}"
        assert (mig.pci_bus_id, mig.numa_node, mig.architecture) == (parent.pci_bus_id, parent.numa_node, "Hopper")
        assert mig.memory_total is not None
        assert mig.memory_total < parent.memory_total


def test_only_the_pair_is_linked(simulate, inventory):
    simulate("mixed")
    linked = [device for device in inventory.snapshot().devices if device.nvlink_peers]
    assert len(linked) == 2
    assert linked[0].nvlink_peers == {linked[1].uuid}


def test_a_healthy_gpu_reports_every_field(simulate, inventory):
    simulate("t4")
    (sample,) = inventory.sample()
    empty = [field.name for field in fields(UsageSample) if getattr(sample, field.name) is None]
    assert empty == ["problem"]
    assert (sample.power, sample.power_limit) == (10.0, 70.0)  # W, from mW


def test_a_mig_instance_reports_memory_but_no_load(simulate, inventory):
    simulate("h100-mig")
    sample = inventory.sample()[1]
    assert sample.device_uuid.startswith("MIG-")
    assert sample.memory_used == 12 * 2**20
    assert sample.gpu_utilization is None
    assert sample.processes == ()


def test_a_gpu_in_mig_mode_without_instances_is_visible(simulate, inventory):
    driver = simulate("h100-mig")
    for uuid in driver.uuids:
        if uuid.startswith("MIG-"):
            driver.remove(uuid)
    first, second = inventory.snapshot().devices
    assert (first.mig_enabled, second.mig_enabled) == (True, False)


def test_a_change_shows_at_the_next_read(simulate, inventory):
    driver = simulate("t4")
    (uuid,) = driver.uuids
    assert inventory.sample()[0].gpu_utilization == 0
    driver.set(uuid, gpu_utilization=87, memory_used=5 * 2**30)
    (sample,) = inventory.sample()
    assert (sample.gpu_utilization, sample.memory_used) == (87, 5 * 2**30)
    driver.set_driver(driver_version="580.1")
    assert inventory.snapshot().driver_version == "580.1"


def test_a_new_mig_instance_and_a_vanished_one_show_at_the_next_read(simulate, inventory):
    driver = simulate("h100-mig")
    gone, *_ = migs = [device.uuid for device in inventory.snapshot().devices if device.is_mig]
    values = driver.read(gone)
    driver.remove(gone)
    driver.add("MIG-new", **values)
    after = [device.uuid for device in inventory.snapshot().devices if device.is_mig]
    assert set(after) == {*migs, "MIG-new"} - {gone}


def test_processes_keep_host_pids_and_may_lack_memory(simulate, inventory):
    driver = simulate("t4")
    driver.set(driver.uuids[0], processes="4194304:2048,7,garbage,12:1024")
    processes = inventory.sample()[0].processes
    assert [(process.pid, process.memory_used) for process in processes] == [(4194304, 2048), (7, None), (12, 1024)]


def test_many_processes_are_all_listed(simulate, inventory):
    driver = simulate("t4")
    driver.set(driver.uuids[0], processes=",".join(f"{pid}:1" for pid in range(1, 301)))
    assert len(inventory.sample()[0].processes) == 300


def test_memory_held_without_any_process_is_seen(simulate, inventory):
    driver = simulate("t4")
    driver.set(driver.uuids[0], memory_used=22 * 10**8)
    (sample,) = inventory.sample()
    assert (sample.memory_used, sample.processes) == (22 * 10**8, ())


def test_two_trees_can_be_read_in_one_process(simulate, inventory):
    simulate("t4", folder="a")
    assert len(inventory.snapshot().devices) == 1
    simulate("8xA100", folder="b")
    assert len(inventory.snapshot().devices) == 8
