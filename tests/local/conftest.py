"""Sites whose servers are real processes: small ones, that answer as JupyterLab does."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from nbgpu.spawner.local import LocalSpawner
from nbgpu.spawner.local_devices import ProcessAccess
from nbgpu.spawner.local_processes import processes_with
from nbgpu.spawner.local_sessions import DEPLOYMENT_VARIABLE, Sessions
from support.site import Site, build_site

SERVER = Path(__file__).with_name("small_server.py")


class Local:
    """A site and the folders of its processes."""

    def __init__(self, folder: Path, how: str, access: ProcessAccess, **config: object) -> None:
        self.folder, self.homes = folder / "servers", folder / "homes"
        self.prefix = f"nbgpu-{uuid4().hex[:8]}"
        self.site: Site = build_site(
            folder,
            None,
            gpus=2,
            prefix=self.prefix,
            spawner=LocalSpawner,
            access=access,
            folder=str(self.folder),
            homes=str(self.homes),
            **({"cmd": [sys.executable, str(SERVER), how], "stop_timeout": 2} | config),
        )
        self.sessions = Sessions(self.folder, self.prefix)

    @property
    def users(self):
        return self.site.users

    @property
    def leases(self):
        return self.site.leases.open_leases()

    def processes(self) -> list[int]:
        """Everything that runs of this site."""
        return [pid for pid, _ in processes_with(DEPLOYMENT_VARIABLE, self.prefix)]

    def left(self) -> tuple[int, int, list[str]]:
        """How many leases and processes there are, and which records."""
        return len(self.leases), len(self.processes()), sorted(path.name for path in self.folder.glob("*.json"))

    def record(self, server: str) -> dict[str, object]:
        """The record of a server as it lies on the disk."""
        return json.loads((self.folder / f"{server}.json").read_text())

    def close(self) -> None:
        """End what runs of this site, by id."""
        while pids := self.processes():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.site.close()


MakeLocal = Callable[..., Local]


@pytest.fixture
def make_local(tmp_path) -> Iterator[MakeLocal]:
    """Return a function that makes a site; its servers behave as `how` says, `config` is the spawner's."""
    made: list[Local] = []

    def make(how: str = "", *, access: ProcessAccess | None = None, **config: object) -> Local:
        folder = tmp_path / f"site{len(made)}"
        folder.mkdir()
        made.append(Local(folder, how, access or ProcessAccess(), **config))
        return made[-1]

    yield make
    for local in made:
        local.close()


@pytest.fixture
def local(make_local) -> Local:
    return make_local()
