"""A hub that asks Docker through a socket which a test can take away, and that waits for little."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.running import running
from faults.engine_away import EngineAway
from faults.site import FaultySite

ROOT = Path(__file__).parents[2]
# Short limits, so that what waits for them is over soon; a server that hangs is one at the hub's start only.
LIMITS = """
[hub]
start_timeout = "20 s"

[engine]
call_timeout = "8 s"
stop_timeout = "2 s"

"""
HOOKS = """
def break_some(spawner):
    if spawner.user.name.startswith("mute"):
        spawner.cmd = ["sleep", "1000"]

c.GPUDockerSpawner.pre_spawn_hook = break_some
c.GPUDockerSpawner.http_timeout = 12
"""


@pytest.fixture(scope="session")
def site_settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed settings with short limits."""
    folder = tmp_path_factory.mktemp("faults-site")
    file = folder / "nbgpu.toml"
    file.write_text(LIMITS + (ROOT / "nbgpu.toml").read_text())
    (folder / "config.d").mkdir()
    (folder / "config.d" / "hooks.py").write_text(HOOKS)
    return file


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineAway]:
    """The socket before the real engine."""
    engine = EngineAway(tmp_path_factory.mktemp("engine") / "docker.sock")
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def shared_site(tmp_path_factory: pytest.TempPathFactory, site_settings: Path, engine: EngineAway):
    """The hub that the tests of this folder share."""
    with running(FaultySite(tmp_path_factory.mktemp("faults") / "data", site_settings, engine.docker_host)) as site:
        yield site


@pytest.fixture
def site(shared_site: FaultySite) -> Iterator[FaultySite]:
    """The shared hub, with no server running; each test leaves it so."""
    yield shared_site
    shared_site.stop_all()
