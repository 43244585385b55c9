"""The widget: readable traits, composable, and live in a real kernel while a cell is busy."""

import itertools
import json
import os
import time

import ipywidgets
import pytest
import traitlets
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

from nbgpu.nvml.simulator.process_view import show_devices
from nbgpu.panel import GpuPanel

BUSY_S = 5
READABLE = {
    "names": ["Tesla T4"],
    "gpu_utilization": [0],
    "memory_used": [4 * 2**20],
    "memory_total": [15 * 2**30],
    "temperature": [36],
    "power": [10.0],
    "power_limit": [70.0],
    "sm_clock": [345],
    "memory_clock": [5001],
    "ecc_errors": [0],
    "problem": None,
}


@pytest.fixture
def panel(simulate, make_sampler):
    driver = simulate("t4")
    sampler = make_sampler()
    made = GpuPanel(sampler=sampler)
    made.driver = driver
    made._stop()  # its thread: the tests move it
    thread = sampler.thread
    if thread is not None:
        thread.join(10)
    sampler._listeners.append(made._show)
    yield made
    made.close()


def test_traits_say_what_is(panel):
    assert {name: getattr(panel, name) for name in READABLE} == READABLE
    assert panel.uuids == list(panel.driver.uuids)


def test_user_code_can_observe_and_not_write(panel, clock):
    seen = []
    panel.observe(lambda change: seen.append(change["new"]), "gpu_utilization")
    for busy in (50, 50, 90):
        panel.driver.set(panel.driver.uuids[0], gpu_utilization=busy)
        clock.forward(1)
        panel._sampler.tick()
    assert seen == [[50], [90]]
    with pytest.raises(traitlets.TraitError, match="read-only"):
        panel.gpu_utilization = [1]


def test_what_is_not_reported_is_none(panel, clock):
    panel.driver.set(panel.driver.uuids[0], **{"fault.nvmlDeviceGetPowerUsage": "NOT_SUPPORTED"})
    clock.forward(1)
    panel._sampler.tick()
    assert (panel.power, panel.power_limit) == ([None], [70.0])
    assert panel.history[-1]["power"] is None


def test_it_composes_with_other_widgets(panel):
    box = ipywidgets.VBox([panel, ipywidgets.Button(description="mine")])
    assert box.children[0] is panel
    box.close()


def test_a_page_that_asks_for_the_state_gets_the_past(panel, clock):
    for _ in range(3):
        clock.forward(1)
        panel._sampler.tick()
    state = json.loads(
        json.dumps({key: value for key, value in panel.get_state().items() if key in ("_frame", "_past")})
    )
    assert state["_past"][panel.uuids[0]]["temperature"] == [36] * len(panel._sampler.history)
    assert state["_frame"]["at"] == clock().timestamp()


def test_a_panel_that_nobody_sees_sends_nothing_until_a_page_asks(panel, clock):
    def sent():
        clock.forward(1)
        panel._sampler.tick()
        return panel._frame["at"] == clock().timestamp()

    assert sent(), "before any page has shown it"
    panel._view_count = 1
    assert sent()
    panel._view_count = 0
    assert not sent()
    assert panel.history[-1]["time"] == clock(), "it is read on for user code"
    panel._handle_custom_msg({"kind": "awake"}, [])
    assert sent()


@pytest.fixture
def kernel(simulate, tmp_path, monkeypatch):
    """A real kernel that sees one simulated GPU."""
    driver = simulate("t4")
    view = show_devices(driver, driver.uuids)
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    for name, value in view.items():
        monkeypatch.setenv(name, value)
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path), env={**os.environ, "PYTHONWARNINGS": ""})
    client: BlockingKernelClient = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield client, driver
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def _run(client, code, *, heard=None):
    """Run a cell; return what it printed, with all that the kernel said meanwhile put into `heard`."""
    asked = client.execute(code)
    printed = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = client.get_iopub_msg(timeout=60)
        kind, content = message["msg_type"], message["content"]
        if heard is not None:
            heard.append((time.monotonic(), message))
        if message["parent_header"].get("msg_id") == asked:
            assert kind != "error", content["evalue"]
            printed += [content["text"]] if kind == "stream" else []
            if kind == "status" and content["execution_state"] == "idle":
                return "".join(printed)
    raise AssertionError("the cell did not end")


def test_the_panel_goes_on_while_a_cell_is_busy(kernel):
    client, driver = kernel
    _run(client, "from nbgpu.panel import GpuPanel, monitor; panel = GpuPanel(); other = GpuPanel()")
    driver.set(driver.uuids[0], gpu_utilization=83)
    heard, began = [], time.monotonic()
    loop = f"import time\nend = time.monotonic() + {BUSY_S}\nwhile time.monotonic() < end: pass"
    assert _run(client, loop, heard=heard) == ""
    ended = time.monotonic()
    frames = [
        (at, message["content"]["data"]["state"]["_frame"])
        for at, message in heard
        if message["msg_type"] == "comm_msg" and "_frame" in message["content"]["data"].get("state", {})
    ]
    times = sorted({frame["at"] for _, frame in frames})
    assert len(times) >= BUSY_S - 1, "about one a second"
    assert len(frames) >= 2 * (BUSY_S - 1), "to both panels"
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) < 2
    arrivals = [at - began for at, _ in frames]
    assert min(arrivals) < 2, "as they come, not at the end"
    assert max(arrivals) < ended - began
    assert frames[-1][1]["devices"][0]["now"]["gpu_utilization"] == 83
    threads = "import threading; print(sum(t.name == 'nbgpu-panel' for t in threading.enumerate()))"
    assert _run(client, threads) == "1\n", "one sampler for both"
    assert "busy 83 %" in _run(client, "with monitor(): time.sleep(0.1)")
    assert "GPU 0: Tesla T4" in _run(client, "%load_ext nbgpu.panel\n%gpu")
