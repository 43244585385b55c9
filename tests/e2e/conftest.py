"""One hub for all tests of this folder: the committed settings, more flavors and limits, users whose servers break."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from e2e.running import Deployment, deployed
from support import chromium

ROOT = Path(__file__).parents[2]
MORE = """
[[flavor]]
slug = "staff-only"
display_name = "Staff's own"
kind = "cpu"
cpus = 1
memory = "1 GiB"
images = ["base"]
groups = ["staff"]

[[flavor]]
slug = "brief"
display_name = "A few seconds"
kind = "cpu"
cpus = 1
memory = "1 GiB"
images = ["base"]
time_limit = "20 s"
groups = ["brief"]

[[flavor]]
slug = "dear"
display_name = "Dear"
kind = "cpu"
cpus = 1
memory = "1 GiB"
images = ["base"]
price_per_hour = "0.02"
groups = ["poor"]

[[quota]]
group = "one-server"
servers = 1

[[budget]]
name = "poor"
group = "poor"
amount = "0.10"
grace = "5 s"

[engine]
before_stop = "12 s"

[culling]
every = "5 s"

[[idle]]
group = "hasty"
idle_limit = "30 s"
warn = ["15 s"]
extend = "20 s"
longest_extension = "20 s"
allow_short = true

[[idle]]
group = "movers"
gpu = true
gpu_idle_limit = "30 s"
idle_limit = "never"
warn = ["15 s"]
move_to = "cpu"
allow_short = true
"""
BREAK = """
def break_some(spawner):
    if spawner.user.name.startswith("broken"):
        spawner.cmd = ["sh", "-c", "echo starting; echo broken config; exit 3"]
    if spawner.user.name.startswith("mute"):
        spawner.cmd = ["sleep", "1000"]

c.GPUDockerSpawner.pre_spawn_hook = break_some
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.PATH, args=chromium.FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A settings file in a folder of its own, with a config.d beside it."""
    folder = tmp_path_factory.mktemp("site")
    file = folder / "nbgpu.toml"
    file.write_text((ROOT / "nbgpu.toml").read_text() + MORE)
    (folder / "config.d").mkdir()
    (folder / "config.d" / "break.py").write_text(BREAK)
    return file


@pytest.fixture(scope="session")
def shared_hub(tmp_path_factory: pytest.TempPathFactory, settings: Path) -> Iterator[Deployment]:
    """The hub that all tests share."""
    with deployed(tmp_path_factory.mktemp("hub") / "data", settings) as deployment:
        yield deployment


@pytest.fixture
def hub(shared_hub: Deployment) -> Iterator[Deployment]:
    """The shared hub, with no server running; each test leaves it so, whatever happens."""
    yield shared_hub
    shared_hub.stop_all()
