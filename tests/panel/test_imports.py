"""What `import nbgpu.panel` brings: the panel, nvml and the domain; nothing of the hub."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import nbgpu.panel

PROGRAM = "import json, sys; from nbgpu.panel import {what}; print(json.dumps(sorted(sys.modules)))"
HUB = {"aiohttp", "alembic", "apprise", "docker", "dockerspawner", "jupyterhub", "pydantic", "sqlalchemy", "typer"}


def _imported(what: str) -> set[str]:
    command = [sys.executable, "-c", PROGRAM.format(what=what)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


SERVER = "server; import nbgpu.panel.server.extension"


@pytest.mark.parametrize("what", ["GpuPanel, monitor, load_ipython_extension", SERVER])
def test_nothing_of_the_hub_is_imported(what):
    names = _imported(what)
    assert {name.split(".")[0] for name in names} & HUB == set()
    assert {name.split(".")[1] for name in names if name.startswith("nbgpu.")} <= {"core", "nvml", "panel"}
    assert "pandas" not in names


def test_the_servers_part_brings_no_widgets_into_the_server():
    assert {"anywidget", "ipywidgets", "IPython"} & _imported(SERVER) == set()


def test_the_page_is_small():
    folder = Path(nbgpu.panel.__file__).parent
    assert sum(path.stat().st_size for path in folder.rglob("*.js")) < 30_000
