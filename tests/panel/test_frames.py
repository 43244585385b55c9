"""What the panel is shown, for each kind of device and each fault of a driver."""

import json
import os

import pytest

from nbgpu.core.devices import GpuProcess
from nbgpu.panel.frames import READINGS
from nbgpu.panel.history import history_of
from nbgpu.panel.processes import own_processes, sees_host_processes
from nbgpu.panel.wire import HOST, past_to_wire, to_wire
from nbgpu.panel.words import describe

T4 = {
    "gpu_utilization": 0,
    "memory_used": 4 * 2**20,
    "memory_total": 15 * 2**30,
    "temperature": 36,
    "power": 10.0,
    "power_limit": 70.0,
    "sm_clock": 345,
    "memory_clock": 5001,
    "ecc_errors": 0,
}
FAULTS = {
    "nvmlDeviceGetUtilizationRates": {"gpu_utilization"},
    "nvmlDeviceGetMemoryInfo": {"memory_used", "memory_total"},
    "nvmlDeviceGetTemperature nvmlDeviceGetTemperatureV": {"temperature"},
    "nvmlDeviceGetPowerUsage": {"power"},
    "nvmlDeviceGetEnforcedPowerLimit nvmlDeviceGetPowerManagementLimit": {"power_limit"},
    "nvmlDeviceGetClockInfo": {"sm_clock", "memory_clock"},
    "nvmlDeviceGetTotalEccErrors": {"ecc_errors"},
    "nvmlDeviceGetComputeRunningProcesses": {"processes"},
}


def wire(frame):
    """Return a frame as the browser gets it: through JSON that has no NaN."""
    return json.loads(json.dumps(to_wire(frame, interval_s=1.0), allow_nan=False))


def test_a_whole_gpu_shows_all_that_it_reports(simulate, make_sampler):
    driver = simulate("t4")
    driver.set(driver.uuids[0], processes="4194305:1000")
    (device,) = wire(make_sampler().tick())["devices"]
    assert device.pop("processes") == [{"pid": 4194305, "name": None, "memory": 1000}], "a PID that /proc lacks"
    assert device == {
        "uuid": driver.uuids[0],
        "name": "Tesla T4",
        "index": 0,
        "mig": None,
        "isMig": False,
        "now": T4,
        "problem": None,
        "lost": False,
        "age": 0.0,
    }


@pytest.mark.parametrize("error", ["NOT_SUPPORTED", "NO_PERMISSION", "UNKNOWN", "FUNCTION_NOT_FOUND"])
@pytest.mark.parametrize("calls", FAULTS)
def test_what_is_not_reported_is_none_alone(simulate, make_sampler, calls, error):
    driver = simulate("t4")
    driver.set(driver.uuids[0], **{f"fault.{call}": error for call in calls.split()})
    (device,) = wire(make_sampler().tick())["devices"]
    missing = {name for name, value in (device["now"] | {"processes": device["processes"]}).items() if value is None}
    assert missing == FAULTS[calls]
    assert device["problem"] is None


def test_a_mig_slice_is_shown_and_its_gpu_is_not(simulate, make_sampler, enter):
    driver = simulate("h100-mig")
    mig = next(uuid for uuid in driver.uuids if uuid.startswith("MIG-") and driver.read(uuid)["index"] == "3")
    driver.set(mig, memory_used=5 * 2**30)
    enter(driver, mig)  # its GPU then answers NO_PERMISSION, as in a container
    (device,) = wire(make_sampler().tick())["devices"]
    assert (device["uuid"], device["isMig"], device["mig"]) == (mig, True, "1g.10gb")
    reported = {name: value for name, value in device["now"].items() if value is not None}
    assert reported == {"memory_used": 5 * 2**30, "memory_total": 9728 * 2**20}


def test_two_gpus_are_in_the_drivers_order(simulate, make_sampler, enter):
    driver = simulate("8xA100")
    chosen = sorted(driver.uuids, key=lambda uuid: int(driver.read(uuid)["index"]))[3:5]
    enter(driver, *chosen)
    driver.set(chosen[1], gpu_utilization=77)
    devices = wire(make_sampler().tick())["devices"]
    assert [device["uuid"] for device in devices] == chosen
    assert [device["now"]["gpu_utilization"] for device in devices] == [0, 77]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"\xf8\xff\x01", None),
        (b"\xf8Tesla T4\xff", "Tesla T4"),
        ("Größte GPU", "Größte GPU"),
        ("<b>x</b>", "<b>x</b>"),
    ],
)
def test_names_of_any_bytes_are_text_or_none(simulate, make_sampler, name, shown):
    driver = simulate("t4")
    driver.set(driver.uuids[0], name=name)
    frame = make_sampler().tick()
    assert wire(frame)["devices"][0]["name"] == shown
    assert (shown or "GPU of unknown name") in describe(frame)


def test_a_lost_gpu_has_no_values_says_so_and_comes_back(simulate, make_sampler, clock):
    driver, sampler = simulate("t4"), make_sampler()
    sampler.tick()
    driver.set(driver.uuids[0], **{"fault.*": "GPU_IS_LOST"})
    clock.forward(1)
    (device,) = wire(sampler.tick())["devices"]
    assert (device["uuid"], device["name"], device["lost"]) == (driver.uuids[0], "Tesla T4", True)
    assert device["now"] == dict.fromkeys(READINGS)
    assert "is lost" in device["problem"]
    driver.set(driver.uuids[0], **{"fault.*": None})
    clock.forward(1)
    assert wire(sampler.tick())["devices"][0]["now"] == T4


def test_a_call_that_hangs_leaves_the_last_values_and_their_age(simulate, make_sampler, clock):
    driver, sampler = simulate("t4"), make_sampler(limit_s=0.1)
    sampler.tick()
    driver.set(driver.uuids[0], **{"fault.nvmlDeviceGetPowerUsage": "HANG"})
    for _ in range(5):
        clock.forward(1)
        frame = sampler.tick()
    (device,) = wire(frame)["devices"]
    assert (device["now"], device["age"], device["lost"]) == (T4, 5.0, False)
    assert "does not answer" in device["problem"]
    assert history_of([frame])[0]["power"] is None, "what was not read is no reading"
    assert past_to_wire(sampler.history)[driver.uuids[0]]["power"] == [10.0, *[None] * 5]
    driver.set(driver.uuids[0], **{"fault.nvmlDeviceGetPowerUsage": None})


def test_a_driver_that_is_away_keeps_the_devices_and_comes_back(simulate, make_sampler, clock):
    driver, sampler = simulate("t4"), make_sampler()
    sampler.tick()
    driver.set_driver(**{"fault.nvmlDeviceGetCount": "UNINITIALIZED"})
    for _ in range(70):  # past the time when devices are described anew
        clock.forward(1)
        frame = sampler.tick()
    assert [each.device.name for each in frame.devices] == ["Tesla T4"]
    assert frame.devices[0].sample.problem
    driver.set_driver(**{"fault.nvmlDeviceGetCount": None})
    clock.forward(5)
    assert wire(sampler.tick())["devices"][0]["now"] == T4


def test_no_gpu_is_said_and_one_that_comes_is_seen(simulate, make_sampler, clock):
    sampler, driver = make_sampler(), simulate("none")
    driver.set_driver(**{"fault.nvmlInit": "LIBRARY_NOT_FOUND"})
    frame = sampler.tick()
    assert (wire(frame)["devices"], "is not found" in frame.problem) == ([], True)
    assert describe(frame).startswith("No GPU here. ")
    driver.set_driver(**{"fault.nvmlInit": None})
    clock.forward(5)
    assert (sampler.tick().problem, sampler.history[-1].devices) == (None, ())
    driver.add("GPU-new", name="New", index="0")
    clock.forward(1)
    assert [each.device.name for each in sampler.tick().devices] == ["New"]


@pytest.mark.parametrize(("share", "said"), [(5 * 2**30, True), (None, False)])
def test_a_slot_of_a_shared_gpu_is_told_as_one(simulate, make_sampler, share, said):
    simulate("t4")
    frame = make_sampler(share=share).tick()
    assert wire(frame)["share"] == share
    assert ("your part is 5.0 GiB" in describe(frame)) is said


LISTED = (GpuProcess(10, 1000), GpuProcess(20, None), GpuProcess(30, 3000))


@pytest.fixture
def proc(tmp_path):
    """A /proc in which 10 is ours, 20 is there without a name, 30 is not there."""
    for pid in (10, 20):
        (tmp_path / str(pid)).mkdir()
    (tmp_path / "10/comm").write_bytes(b"pyth\xffon\n")
    return tmp_path


@pytest.mark.parametrize(
    ("shared", "on_host", "pids"),
    [
        (False, True, [10, 20, 30]),
        (True, True, [10, 20]),  # 30 may be anybody's
        (False, False, [10, 20, 30]),
        (True, False, None),
    ],
)
def test_processes_are_ours_or_not_told(proc, shared, on_host, pids):
    found = own_processes(LISTED, shared=shared, on_host=on_host, proc=proc)
    assert (found and [each.pid for each in found]) == pids
    names = {each.pid: each.name for each in found or ()}
    assert names.get(10) == (("pyth�on" if on_host else None) if found else None)


def test_others_processes_are_never_shown(proc, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 1 + (proc / "10").stat().st_uid)
    found = own_processes(LISTED, shared=False, on_host=True, proc=proc)
    assert [each.pid for each in found] == [30]
    assert own_processes(None, shared=False, on_host=True, proc=proc) is None


def test_where_proc_is_not_told_it_is_not_the_hosts(tmp_path):
    assert not sees_host_processes(tmp_path)


def test_the_past_has_a_gap_where_a_device_was_not_there(simulate, make_sampler, clock):
    driver, sampler = simulate("t4"), make_sampler()
    sampler.tick()
    driver.add("GPU-new", name="New", index="1", gpu_utilization="5")
    clock.forward(1)
    sampler.tick()
    past = past_to_wire(sampler.history)
    assert past["GPU-new"]["gpu_utilization"] == [None, 5]
    assert past[driver.uuids[0]]["gpu_utilization"] == [0, 0]
    assert len(past[HOST]["cpu_used"]) == 2
