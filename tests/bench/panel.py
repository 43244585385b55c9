"""What the notebook's panel costs: its kernel's CPU, and CPU of one reading against that of gpustat and nvitop."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

from bench.figures import Figure, median
from nbgpu.nvml.simulator import SimulatedDriver
from nbgpu.nvml.simulator.process_view import show_devices

SECONDS = 20
READINGS = {"ours": 100, "nvitop": 100, "gpustat": 10}  # gpustat takes most of a second for each
ROUNDS = 3
IDLE = f"import time; began = time.process_time(); time.sleep({SECONDS}); print(time.process_time() - began)"
PANEL = "from nbgpu.panel import GpuPanel; panel = GpuPanel()"
CPU_OF = """
import time
{prepare}
read()
began = time.process_time()
for _ in range({readings}):
    read()
print((time.process_time() - began) / {readings} * 1000)
"""
OURS = """
import json
from datetime import UTC, datetime
from nbgpu.nvml import NvmlInventory
from nbgpu.panel.collect import Collector
from nbgpu.panel.wire import to_wire
collector = Collector(NvmlInventory())
def read():
    frame = collector.collect(datetime.now(UTC))
    assert len(frame.devices) == 8 and frame.devices[0].sample.power
    json.dumps(to_wire(frame, interval_s=1.0))
"""
YARDSTICKS = {
    "gpustat": """
import gpustat, json
def read():
    found = gpustat.new_query()
    assert len(found) == 8
    json.dumps(found.jsonify(), default=str)
""",
    "nvitop": """
import nvitop
devices = nvitop.Device.all()
assert len(devices) == 8
def read():
    for device in devices:
        device.as_snapshot()
""",
}


def measure_panel() -> Iterator[Figure]:
    """A kernel with and without a panel on 8 GPUs; then CPU milliseconds for a reading of all 8, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        driver = SimulatedDriver(Path(folder) / "simulator")
        driver.create("8xA100")
        environ = {
            **os.environ,
            **show_devices(driver, driver.uuids),
            "JUPYTER_RUNTIME_DIR": folder,
            "IPYTHONDIR": folder,
        }
        without, used = _kernel_seconds(environ)
        percent = 100 / SECONDS
        yield Figure("panel.cpu", (used - without) * percent, None, "% core", "below 0.5")
        programs = {name: code for name, code in YARDSTICKS.items() if importlib.util.find_spec(name)}
        costs: dict[str, list[float]] = {"ours": []} | {name: [] for name in programs}
        for _ in range(ROUNDS):
            for name, code in ({"ours": OURS} | programs).items():
                costs[name].append(_milliseconds(code, environ, readings=READINGS[name]))
        for name in programs:  # gpustat has no wheel: install it by hand for its figure
            yield Figure(f"panel.vs_{name}", median(costs["ours"]), median(costs[name]), "CPU ms", "at most 1x")


def _milliseconds(prepare: str, environ: dict[str, str], *, readings: int) -> float:
    command = [sys.executable, "-c", CPU_OF.format(prepare=prepare, readings=readings)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def _kernel_seconds(environ: dict[str, str]) -> tuple[float, float]:
    """Return the CPU seconds of a kernel that does nothing, and of one with a panel, over `SECONDS`."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=environ)
    client: BlockingKernelClient = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        without = float(_printed(client, IDLE))
        _printed(client, PANEL)
        return without, float(_printed(client, IDLE))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def _printed(client: BlockingKernelClient, code: str) -> str:
    said: list[str] = []

    def hear(message: dict[str, object]) -> None:
        content = json.loads(json.dumps(message["content"], default=str))
        assert message["msg_type"] != "error", content
        said.extend([content["text"]] if message["msg_type"] == "stream" else [])

    client.execute_interactive(code, output_hook=hear, timeout=120)
    return "".join(said)
