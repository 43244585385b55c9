"""Which driver is chosen, and the check of the binding."""

from types import SimpleNamespace

import pytest

from nbgpu.core.errors import SetupError
from nbgpu.nvml import binding, binding_problem, open_inventory
from nbgpu.nvml import open as opening
from nbgpu.nvml.simulator.activate import ROOT_VARIABLE


def test_simulated_is_built_and_says_so(tmp_path, simulate, monkeypatch):
    simulate("t4")  # restores the environment at the end
    monkeypatch.setattr(opening, "CONTROL_DEVICE", tmp_path / "nvidiactl")
    for mode in ("auto", "simulated"):
        snapshot = open_inventory(tmp_path / "simulator", "t4", mode=mode).snapshot()
        assert snapshot.simulated
        assert len(snapshot.devices) == 1


def test_the_root_may_come_from_the_environment(tmp_path, simulate, monkeypatch):
    driver = simulate("t4")
    monkeypatch.setenv(ROOT_VARIABLE, str(driver.root))
    assert len(open_inventory(None, "t4", mode="simulated").snapshot().devices) == 1


def test_a_real_driver_wins(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "CONTROL_DEVICE", tmp_path)  # exists
    open_inventory(tmp_path / "simulator", "t4")
    open_inventory(tmp_path / "simulator", "t4", mode="real")
    assert not (tmp_path / "simulator").exists()


def test_a_loaded_real_driver_is_not_mixed_with_the_simulated_one(tmp_path, monkeypatch):
    monkeypatch.setattr(binding.pynvml, "nvmlLib", SimpleNamespace())  # a library without the simulator's mark
    with pytest.raises(SetupError, match="has loaded the real one"):
        open_inventory(tmp_path, "t4", mode="simulated")


def test_an_unknown_profile_is_refused(tmp_path):
    with pytest.raises(SetupError, match="no simulator profile"):
        open_inventory(tmp_path, "dgx", mode="simulated")


@pytest.mark.parametrize(
    ("installed", "file", "problem"),
    [
        ({"nvidia-ml-py": "13.0"}, "/lib/pynvml.py", None),
        ({"nvidia-ml-py": "13.0", "pynvml": "13.0"}, "/lib/pynvml.py", None),  # the wrapper on top of the right one
        ({"nvidia-ml-py": "13.0", "pynvml": "11.5"}, "/lib/pynvml/__init__.py", "deprecated package pynvml 11.5"),
        ({"pynvml": "11.5"}, "/lib/pynvml/__init__.py", "deprecated package pynvml 11.5"),
        ({}, "/home/me/pynvml.py", "unknown module at /home/me/pynvml.py"),
    ],
)
def test_the_wrong_binding_is_named(monkeypatch, installed, file, problem):
    monkeypatch.setattr(binding, "_version", installed.get)
    monkeypatch.setattr(binding.pynvml, "__file__", file)
    told = binding_problem()
    assert told is None if problem is None else problem in told


def test_the_binding_of_this_environment_is_right():
    assert binding_problem() is None


@pytest.mark.parametrize(
    ("answer", "shown"), [("A10", "A10"), (b"A10", "A10"), (b"\xff", None), (None, None), (7, None), ("\x00\x01", None)]
)
def test_text_is_tolerant(answer, shown):
    assert binding.text(answer) == shown


@pytest.mark.parametrize(("answer", "shown"), [(0, 0), (5, 5), (2**32 - 1, None), (2**64 - 1, None), (None, None)])
def test_not_available_is_no_number(answer, shown):
    assert binding.number(answer) == shown


def test_a_call_that_the_binding_lacks_is_not_reported():
    assert binding.ask("nvmlDeviceGetSomethingOfTomorrow") is None
