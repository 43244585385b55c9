"""The live GPU panel of the notebook: `GpuPanel()`, `with monitor():` and, after `%load_ext nbgpu.panel`, `%gpu`.

It is for user images and workstations: it reads the driver of where it runs, and knows nothing of a hub.
"""

from nbgpu.panel.magic import load_ipython_extension
from nbgpu.panel.monitor import monitor
from nbgpu.panel.widget import GpuPanel

__all__ = ["GpuPanel", "load_ipython_extension", "monitor"]
