"""What `import nbgpu.panel` brings: the panel, nvml and the domain; nothing of the hub."""

import json
import subprocess
import sys
from pathlib import Path

import nbgpu.panel

PROGRAM = "import json, sys, nbgpu.panel; print(json.dumps(sorted(sys.modules)))"
HUB = {"aiohttp", "alembic", "apprise", "docker", "dockerspawner", "jupyterhub", "pydantic", "sqlalchemy", "typer"}


def test_nothing_of_the_hub_is_imported():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    names = json.loads(done.stdout)
    assert {name.split(".")[0] for name in names} & HUB == set()
    ours = {name.split(".")[1] for name in names if name.startswith("nbgpu.")}
    assert ours == {"core", "nvml", "panel"}
    assert "pandas" not in names


def test_the_page_is_small():
    folder = Path(nbgpu.panel.__file__).parent
    assert sum((folder / name).stat().st_size for name in ("panel.js", "panel.css")) < 30_000
