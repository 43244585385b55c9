"""The live GPU panel of the notebook: `GpuPanel()`, `with monitor():` and, after `%load_ext nbgpu.panel`, `%gpu`.

It is for user images and workstations: it reads the driver of where it runs, and needs no hub. What brings IPython and
the widgets is imported when it is first asked for: the server's own part (`nbgpu.panel.server`) does without.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbgpu.panel.block import monitor
    from nbgpu.panel.magic import load_ipython_extension
    from nbgpu.panel.widget import GpuPanel

__all__ = ["GpuPanel", "load_ipython_extension", "monitor"]
_PLACES = {"GpuPanel": "widget", "load_ipython_extension": "magic", "monitor": "block"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = found
    return found
