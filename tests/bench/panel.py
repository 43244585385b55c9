"""What the panel costs: a kernel that has it, a server that a page looks at, and one reading beside yardsticks."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager
from tornado.websocket import websocket_connect

from bench.figures import Figure, median
from nbgpu.nvml.simulator import SimulatedDriver
from nbgpu.nvml.simulator.process_view import show_devices
from panel.jupyter import TOKEN, jupyter

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
        yield Figure("panel.server", _server_percent(Path(folder), environ), None, "% core", "below 0.5")
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


def _server_percent(folder: Path, environ: dict[str, str]) -> float:
    """Return what a Jupyter server needs of a core for one page that looks, more than without it."""
    with jupyter(folder, environ, app="jupyter_server", hurried=False) as url:
        pid = int((folder / "server.pid").read_text())
        without = _cpu_seconds_over(pid, SECONDS)
        return (asyncio.run(_looked_at(url, pid)) - without) * 100 / SECONDS


async def _looked_at(url: str, pid: int) -> float:
    page = await websocket_connect(f"{url.replace('http', 'ws')}/nbgpu/stream?token={TOKEN}")
    await page.read_message()
    measured = asyncio.ensure_future(asyncio.to_thread(_cpu_seconds_over, pid, SECONDS))
    frames = 0
    while not measured.done():
        frames += "frame" in json.loads(await page.read_message() or "")
    assert frames >= SECONDS - 2
    page.close()
    return await measured


def _cpu_seconds_over(pid: int, seconds: float) -> float:
    before = _cpu_seconds(pid)
    time.sleep(seconds)
    return _cpu_seconds(pid) - before


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _printed(client: BlockingKernelClient, code: str) -> str:
    said: list[str] = []

    def hear(message: dict[str, object]) -> None:
        content = json.loads(json.dumps(message["content"], default=str))
        assert message["msg_type"] != "error", content
        said.extend([content["text"]] if message["msg_type"] == "stream" else [])

    client.execute_interactive(code, output_hook=hear, timeout=120)
    return "".join(said)
