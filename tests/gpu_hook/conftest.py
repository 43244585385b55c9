"""Private dockerds with and without a stand-in for NVIDIA's container hook, and a tiny image made without a registry.

dockerd offers `--gpus` when `nvidia-container-runtime-hook` is on its PATH at its start. It then puts what a create
request asks for into the container's environment and has the runtime call the hook before the container's program
runs. The stand-in writes down what it was called with.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from nbgpu.machine.dockerd import DaemonPlan, start_dockerd
from nbgpu.machine.engine import ask_engine

HOOK_NAME = "nvidia-container-runtime-hook"
# The runtime gives a hook the container's state on stdin; its bundle has the config.json with the environment.
HOOK = """#!{python}
import json, os, sys
state = json.load(sys.stdin)
config = json.load(open(os.path.join(state["bundle"], "config.json")))
call = dict(id=state["id"], arguments=sys.argv[1:], env=config["process"]["env"])
with open("{record}", "a") as record:
    print(json.dumps(call), file=record)
"""
PROGRAM = """
#include <stdio.h>
#include <unistd.h>
extern char **environ;
int main(void) {
  for (char **each = environ; *each; each++) puts(*each);
  fflush(stdout);
  pause();
  return 0;
}
"""


@dataclass(frozen=True)
class PrivateEngine:
    """A dockerd of the tests' own, with its image and what its hook was called with."""

    url: str
    image_id: str
    record: Path

    def hook_calls(self) -> dict[str, dict[str, Any]]:
        """Return what the hook wrote down, by container id."""
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return {call["id"]: call for call in map(json.loads, lines)}


@pytest.fixture(scope="session")
def image_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root file system with one program, which prints its environment and waits."""
    folder = tmp_path_factory.mktemp("image")
    (folder / "show.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-static", "-o", folder / "show", folder / "show.c"], check=True, timeout=60)
    with tarfile.open(folder / "image.tar", "w") as tar:
        tar.add(folder / "show", "show")
    return folder / "image.tar"


@pytest.fixture(scope="session")
def with_hook(image_file: Path) -> Iterator[PrivateEngine]:
    """An engine that found the hook."""
    with run_engine(image_file, hook=True) as engine:
        yield engine


@pytest.fixture(scope="session")
def without_hook(image_file: Path) -> Iterator[PrivateEngine]:
    """An engine on a machine without NVIDIA's toolkit."""
    with run_engine(image_file, hook=False) as engine:
        yield engine


@contextmanager
def run_engine(image_file: Path, *, hook: bool) -> Iterator[PrivateEngine]:
    """Run a private dockerd for a while; nothing of it is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="nbgpu-"))  # a short path: sockets allow 107 characters
    url, pid = f"unix://{folder}/s", None
    try:
        pid = start_dockerd(_plan(folder, hook=hook), lambda: _answers(url), lambda _: None)
        with _client(url) as client:
            changes = ["ENV NVIDIA_VISIBLE_DEVICES=all", 'CMD ["/show"]']
            client.api.import_image(str(image_file), repository="show", changes=changes)
            yield PrivateEngine(url, client.images.get("show:latest").id, folder / "hook-calls")
            for container in client.containers.list(all=True):
                container.remove(force=True, v=True)
    finally:
        if pid is not None:
            _end(pid)
        _clean(folder)


@contextmanager
def _client(url: str) -> Iterator[docker.DockerClient]:
    client = docker.DockerClient(base_url=url, timeout=30)
    try:
        yield client
    finally:
        client.close()


def _plan(folder: Path, *, hook: bool) -> DaemonPlan:
    (folder / "bin").mkdir()
    if hook:
        file = folder / "bin" / HOOK_NAME
        file.write_text(HOOK.format(python=sys.executable, record=folder / "hook-calls"))
        file.chmod(0o755)
    return DaemonPlan(
        log=folder / "log",
        pid_file=folder / "pid",
        exec_root=folder / "x",
        system_containerd=folder / "none.sock",
        arguments=(
            f"--host={f'unix://{folder}/s'}",
            f"--pidfile={folder}/pid",
            f"--exec-root={folder}/x",
            f"--data-root={folder}/data",
            "--bridge=none",
            "--iptables=false",
            "--storage-driver=vfs",
        ),
        # A network namespace of its own: a dockerd without a bridge deletes docker0, which is the machine's engine's.
        as_root=("unshare", "--net", "--"),
        environ={**os.environ, "PATH": os.pathsep.join([str(folder / "bin"), *_search_path()])},
    )


def _search_path() -> list[str]:
    """Return the folders of PATH that have no hook of the machine's; skip the test where dockerd is in such a one."""
    folders = [*os.environ["PATH"].split(os.pathsep), "/usr/sbin", "/sbin"]
    clean = [each for each in folders if not (Path(each) / HOOK_NAME).exists()]
    if os.geteuid() != 0 or not shutil.which("dockerd", path=os.pathsep.join(clean)):
        pytest.skip("a private dockerd needs root, and dockerd in a folder without NVIDIA's hook")
    return clean


def _answers(url: str) -> bool:
    return ask_engine({"DOCKER_HOST": url}).version is not None


def _end(pid: int) -> None:
    """End a dockerd, our child, and its containerd with it."""
    os.kill(pid, signal.SIGTERM)
    _wait(lambda: os.waitpid(pid, os.WNOHANG) != (0, 0))


def _wait(condition: Callable[[], bool], *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "dockerd did not end"
        time.sleep(0.05)


def _clean(folder: Path) -> None:
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in sorted((each for each in mounted if each.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", place], check=False, capture_output=True, timeout=20)
    shutil.rmtree(folder, ignore_errors=True)
