"""JupyterHub's configuration: all of it comes from nbgpu.toml; config.d/*.py beside that file may add to it."""

import os
from pathlib import Path

from nbgpu.wiring.hub import configure

c = get_config()  # noqa: F821 - JupyterHub provides it
configure(c)

for extra in sorted((Path(os.environ.get("NBGPU_CONFIG", "nbgpu.toml")).parent / "config.d").glob("*.py")):
    load_subconfig(str(extra))  # noqa: F821 - JupyterHub provides it
