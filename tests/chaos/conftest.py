"""A hub that kills itself, as `kill -9` would, at a chosen step of a start or a stop."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.running import Deployment, deployed

ROOT = Path(__file__).parents[2]
STRIKE = """
import functools, inspect, os, signal
from pathlib import Path
from nbgpu.spawner.desk import Desk
from nbgpu.spawner.docker import GPUDockerSpawner

ARMED = Path(os.environ["NBGPU_DATA"]) / "kill-at"


def strike(point):
    if ARMED.exists() and ARMED.read_text() == point:
        ARMED.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def arm(cls, name):
    method = getattr(cls, name)

    @functools.wraps(method)
    def sync(*args, **kwargs):
        strike("before " + name)
        result = method(*args, **kwargs)
        strike("after " + name)
        return result

    @functools.wraps(method)
    async def asynchronous(*args, **kwargs):
        strike("before " + name)
        result = await method(*args, **kwargs)
        strike("after " + name)
        return result

    setattr(cls, name, asynchronous if inspect.iscoroutinefunction(method) else sync)


for name in ("acquire", "activate", "mark_ending", "release"):
    arm(Desk, name)
for name in ("_create", "start_object", "start", "shut_down"):
    arm(GPUDockerSpawner, name)
"""


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment whose hub reads the file `kill-at` of its data folder at each step."""
    folder = tmp_path_factory.mktemp("chaos-site")
    settings = folder / "nbgpu.toml"
    settings.write_text((ROOT / "nbgpu.toml").read_text())
    (folder / "config.d").mkdir()
    (folder / "config.d" / "strike.py").write_text(STRIKE)
    with deployed(tmp_path_factory.mktemp("chaos") / "data", settings) as deployment:
        yield deployment
