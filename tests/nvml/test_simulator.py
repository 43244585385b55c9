"""The state tree, malformed files, and the library's compilation."""

import os
import random
import subprocess
import sys
import threading

import pytest

from nbgpu.core.errors import SetupError
from nbgpu.nvml.simulator import PROFILES, SimulatedDriver, ensure_library

LONG = "x" * 100_000
MALFORMED = {
    "empty": b"",
    "no equals sign": b"hello\nworld\n\n\n",
    "NUL bytes": b"name=a\0b\nmemory_total=\0\nindex=0\n",
    "one endless line": LONG.encode(),
    "endless value": b"name=" + LONG.encode() + b"\nindex=0\n",
    "endless hexadecimal": b"name_hex=" + b"41" * 50_000,
    "odd hexadecimal": b"name_hex=414\n",
    "endless lists": b"processes=" + b"1:1," * 4000 + b"\nnvlink_peers=" + b"GPU-x," * 2000,
    "numbers that are none": b"memory_total=-1\nindex=abc\ntemperature=99999999999999999999999\npower=1.5\n",
    "wrong forms": b"compute_capability=a.b\npci_bus_id=zz:yy\nprocesses=::,,:5,x\nmig_enabled=maybe\n",
    "a parent with a path": b"parent=../../etc\nindex=0\n",
    "its own parent": b"parent=GPU-bad\nindex=0\n",
    "not text": bytes(range(256)) * 40,
    "Windows line ends": b"name=Tesla T4\r\nindex=0\r\n",
}


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_device_harms_nothing(simulate, inventory, content):
    driver = simulate("8xA100")
    good = inventory.snapshot().devices
    driver.add("GPU-bad")
    (driver.root / "devices" / "GPU-bad" / "state").write_bytes(content)
    snapshot = inventory.snapshot()
    assert snapshot.problem is None
    names = {device.uuid: device.name for device in snapshot.devices}
    assert {device.uuid: device.name for device in good}.items() <= names.items()
    assert len(inventory.sample()) == len(snapshot.devices)


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_driver_file_harms_nothing(simulate, inventory, content):
    driver = simulate("t4")
    (driver.root / "driver" / "state").write_bytes(content)
    assert len(inventory.snapshot().devices) == 1


def test_random_bytes_harm_nothing(simulate, inventory):
    driver = simulate("mixed")
    bits = random.Random(7)
    keys = [key.encode() for key in driver.read(driver.uuids[-1])]
    for _ in range(60):
        path = driver.root / "devices" / bits.choice(driver.uuids) / "state"
        path.write_bytes(b"\n".join(bits.choice(keys) + b"=" + bits.randbytes(bits.randrange(300)) for _ in range(80)))
        assert inventory.snapshot().problem is None
        inventory.sample()


def test_odd_things_in_the_devices_folder_are_skipped(simulate, inventory):
    driver = simulate("t4")
    devices = driver.root / "devices"
    os.mkfifo(devices / "fifo")
    (devices / "empty").mkdir()
    (devices / "folder-as-state" / "state").mkdir(parents=True)
    (devices / "pipe-as-state").mkdir()
    os.mkfifo(devices / "pipe-as-state" / "state")
    (devices / ".hidden").mkdir()
    (devices / ".hidden" / "state").write_text("index=0\n")
    (devices / ("GPU-" + "0" * 200)).mkdir()
    (devices / ("GPU-" + "0" * 200) / "state").write_text("index=0\n")
    assert len(inventory.snapshot().devices) == 1


def test_more_devices_than_any_machine_has_are_cut_off(simulate, inventory):
    driver = simulate("none")
    for number in range(140):
        driver.add(f"GPU-{number:03}", index=number, name="many")
    assert len(inventory.snapshot().devices) == 128


def test_an_existing_tree_of_the_profile_keeps_its_state(tmp_path):
    driver = SimulatedDriver(tmp_path / "tree")
    assert driver.profile is None
    driver.create("t4")
    driver.set(driver.uuids[0], gpu_utilization=50)
    driver.create("t4")
    assert driver.read(driver.uuids[0])["gpu_utilization"] == "50"
    driver.create("8xA100")
    assert driver.uuids == tuple(sorted(PROFILES["8xA100"]))
    assert driver.profile == "8xA100"


def test_an_unknown_profile_is_refused(tmp_path):
    with pytest.raises(SetupError, match='no simulator profile "dgx"; there are: 8xA100'):
        SimulatedDriver(tmp_path).create("dgx")


def test_uuids_have_nvidias_form_and_never_change():
    for devices in PROFILES.values():
        for uuid in devices:
            assert len(uuid) == 40
            assert uuid[:4] in {"GPU-", "MIG-"}
    assert list(PROFILES["t4"]) == ["GPU-3bcc5158-14b1-58aa-ae10-211004f43ffa"]


def test_lines_can_be_set_and_unset(tmp_path):
    driver = SimulatedDriver(tmp_path)
    driver.create("t4")
    (uuid,) = driver.uuids
    driver.set(uuid, name=b"\xff", **{"fault.*": "UNKNOWN"})
    assert (driver.read(uuid)["name_hex"], "name" in driver.read(uuid)) == ("ff", False)
    driver.set(uuid, name="T4", **{"fault.*": None})
    assert (driver.read(uuid)["name"], "name_hex" in driver.read(uuid)) == ("T4", False)
    driver.unset(uuid, "name", "never there")
    assert "name" not in driver.read(uuid)
    driver.set_driver(cuda_version=13000)
    assert driver.read_driver()["cuda_version"] == "13000"
    with pytest.raises(ValueError, match="line break"):
        driver.set(uuid, name="a\nfault.*=HANG")
    for missing in ("GPU-none", "../driver", ""):
        with pytest.raises(KeyError):  # the key is what was asked
            driver.set(missing, name="x")


def test_changes_at_once_lose_none(tmp_path):
    driver = SimulatedDriver(tmp_path)
    driver.create("t4")
    (uuid,) = driver.uuids
    threads = [threading.Thread(target=driver.set, args=(uuid,), kwargs={f"key{n}": n}) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert {f"key{n}" for n in range(16)} <= driver.read(uuid).keys()
    assert [path.name for path in (tmp_path / "devices" / uuid).iterdir()] == ["state"]


def test_the_library_is_compiled_once(library):
    before = library.stat()
    assert ensure_library(library.parent) == library
    assert (library.stat().st_ino, library.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert [path.name for path in library.parent.iterdir()] == ["libnvidia-ml.so.1"]


def test_a_library_of_other_sources_is_replaced(tmp_path):
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"nbgpu-simulator 0123")
    assert ensure_library(tmp_path).read_bytes().startswith(b"\x7fELF")


def test_two_processes_may_compile_at_once(tmp_path):
    program = f"from pathlib import Path; from nbgpu.nvml.simulator import *; ensure_library(Path({str(tmp_path)!r}))"
    both = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["libnvidia-ml.so.1"]


def test_without_a_compiler_the_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SetupError, match="install gcc: apt-get install gcc libc6-dev"):
        ensure_library(tmp_path)


@pytest.mark.parametrize("compiler", ["/nonexistent/cc", "false"])
def test_a_compiler_that_fails_is_told(tmp_path, monkeypatch, compiler):
    monkeypatch.setenv("CC", compiler)
    with pytest.raises(SetupError, match="install gcc"):
        ensure_library(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_library_needs_nothing_newer_than_debian_12(library):
    symbols = subprocess.run(["readelf", "-V", str(library)], capture_output=True, text=True, check=True).stdout
    versions = {tuple(map(int, word[6:].split("."))) for word in symbols.split() if word.startswith("GLIBC_2")}
    assert max(versions) <= (2, 36)
