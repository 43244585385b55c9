"""Leftover memory: a device in use without a lease is held back, told once, and comes back when it is clean."""

import dataclasses
import math
import threading
from datetime import UTC, datetime

import pytest

from nbgpu.core.devices import Device, InventorySnapshot, UsageSample
from nbgpu.core.health import quarantine_used
from nbgpu.spawner.fleet import DockerFleet
from nbgpu.telemetry.health import CheckedInventory
from support.fake_docker import FakeDockerClient
from support.site import PREFIX, build_site
from support.users import start

NOW = datetime(2026, 11, 30, tzinfo=UTC)
GIB = 2**30
A100 = Device(uuid="GPU-0", name="NVIDIA A100", memory_total=80 * GIB)


def sample(used: int | None, uuid: str = "GPU-0") -> UsageSample:
    return UsageSample(uuid, NOW, memory_used=used)


@pytest.mark.case(30)
@pytest.mark.parametrize(
    ("why", "device", "used", "held", "problem"),
    [
        ("clean", A100, 4 * 2**20, (), None),
        ("the driver's own share", A100, int(1.2 * GIB), (), None),
        ("two workers outlived their container", A100, 22 * GIB, (), "22 GiB of the memory of GPU-0 are in use"),
        ("its lease's own work", A100, 22 * GIB, ("GPU-0",), None),
        ("not reported is not zero, and not full either", A100, None, (), None),
        ("a small device has a small limit", dataclasses.replace(A100, memory_total=GIB), 600 * 2**20, (), "600 MiB"),
        (
            "a GPU in MIG mode is judged by its instances",
            dataclasses.replace(A100, mig_enabled=True),
            9 * GIB,
            (),
            None,
        ),
        ("a worse problem stays", dataclasses.replace(A100, problem="Lost."), 22 * GIB, (), "Lost."),
    ],
)
def test_a_device_in_use_without_a_lease_is_held_back(why, device, used, held, problem):
    (checked,) = quarantine_used(InventorySnapshot(NOW, (device,)), [sample(used)], held).devices
    assert (checked.problem is None) if problem is None else checked.problem.startswith(problem), why


@pytest.mark.case(30)
async def test_the_next_user_gets_another_device_and_the_admin_is_told(tmp_path, monkeypatch):
    told: list[str] = []
    monkeypatch.setattr("nbgpu.telemetry.health.log.warning", lambda text, *args: told.append(text % args))
    client = FakeDockerClient()
    client.add_image("sha256:base")
    site = build_site(tmp_path, client, gpus=2)
    readings = {"GPU-0": 22 * GIB, "GPU-1": 0}
    site.inventory.sample = lambda: tuple(sample(used, uuid) for uuid, used in readings.items())
    site.desk._inventory = checked = CheckedInventory(site.inventory, site.leases, DockerFleet(client, PREFIX))
    await start(site.users["ann"], profile="one")
    assert site.leases.open_leases()[0].allocation.device_uuids == ("GPU-1",)
    with pytest.raises(Exception, match="22 GiB of its memory are in use|All are in use"):
        await start(site.users["bob"], profile="one")
    assert len(told) == 1
    assert told[0].startswith("GPU-0 is not leased: 22 GiB")
    readings["GPU-0"] = 0
    assert checked.snapshot().by_uuid["GPU-0"].problem is None
    await start(site.users["bob"], profile="one")
    site.close()


async def test_a_device_is_not_leased_while_a_server_that_lost_its_lease_runs_on_it(tmp_path):
    client = FakeDockerClient()
    client.add_image("sha256:base")
    site = build_site(tmp_path, client, gpus=2)
    site.desk._inventory = checked = CheckedInventory(site.inventory, site.leases, DockerFleet(client, PREFIX))
    await start(site.users["ann"], profile="one")
    (lease,) = site.leases.open_leases()
    site.leases.release(lease.session_id, "the database was restored from an old backup")
    checked._read_at = -math.inf  # a second later
    assert "lost its lease still runs on GPU 0 (GPU-0)" in str(checked.snapshot().by_uuid["GPU-0"].problem)
    await start(site.users["bob"], profile="one")
    assert site.leases.open_leases()[0].allocation.device_uuids == ("GPU-1",)
    client.remove_container("nbgpu-test00-ann", force=True)
    assert checked.snapshot().by_uuid["GPU-0"].problem is None
    site.close()


async def test_an_engine_that_hangs_is_waited_for_once_and_shortly(tmp_path):
    client = FakeDockerClient()
    client.add_image("sha256:base")
    site = build_site(tmp_path, client, gpus=1)
    checked = CheckedInventory(site.inventory, site.leases, DockerFleet(client, PREFIX))
    answer = threading.Event()
    client.before = lambda method: answer.wait(10) and None
    for _ in range(3):
        checked._read_at = -math.inf
        assert checked.snapshot().by_uuid["GPU-0"].problem is None
    assert not answer.is_set()
    assert checked._asked is not None
    assert not checked._asked.done(), "nobody waited for the answer"
    answer.set()
    site.close()
