"""The Jupyter server extension of the panel: one sampler for all of a server, and what the server tells of itself.

It works in any Jupyter server; what needs a hub is idle without one. Jupyter Server finds it by the functions below.
"""

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "nbgpu.panel.server"}]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    from nbgpu.panel.server.extension import load

    load(serverapp)
