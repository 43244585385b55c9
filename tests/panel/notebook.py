"""A notebook with the panel and a cell that is busy, and what watches how often the panel draws."""

import json

WATCH = """
() => {
  window.drawn = { widget: [], side: [] };
  for (const [name, place] of [["widget", ".jp-Notebook"], ["side", ".nbgpu-side"]])
    new MutationObserver(() => drawn[name].push(performance.now() / 1000))
      .observe(document.querySelector(`${place} [data-reading=cpu_used] ~ svg path`), { attributes: true });
}
"""


def notebook(*, busy_s: int) -> str:
    """Three cells: the panel; whether the kernel asks the driver itself; and what keeps the kernel busy."""
    busy = f"import time\nend = time.monotonic() + {busy_s}\nwhile time.monotonic() < end: pass\n"
    sources = [
        "from nbgpu.panel import GpuPanel\nGpuPanel()",
        "maps = open('/proc/self/maps').read()\nprint('asks the driver:', 'libnvidia-ml' in maps)",
        busy + "print('the cell', 'has ended')",
    ]
    parts = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [{**parts, "id": str(number), "source": source} for number, source in enumerate(sources)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps({"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})
