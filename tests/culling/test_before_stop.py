"""What runs before a stop: the user's own script, bounded; it never keeps a server from being stopped."""

import asyncio
import io
import os
import secrets
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from local.conftest import Local
from nbgpu.images.built import find_image_id
from nbgpu.images.catalog import load_catalog
from nbgpu.spawner import before_stop
from nbgpu.spawner.before_stop import SCRIPT, run_in_container
from nbgpu.spawner.container import NOTICE_FILE
from nbgpu.spawner.docker_calls import call
from nbgpu.spawner.local_devices import ProcessAccess
from support.users import start

OURS = load_catalog().find("base").folder / "before-stop"
WORKS = "#!/bin/sh\necho saved; echo cause=${NBGPU_STOP_CAUSE-none}; pwd > ~/where"
FAILS = "#!/bin/sh\necho oh; exit 3"
HANGS = "#!/bin/sh\ntrap '' TERM\necho begun\nsleep 60 & sleep 60\nsleep 60"


# The script itself


class Home:
    """A home folder with a hook, and the script run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".nbgpu").mkdir()
        self.hook, self.log = folder / ".nbgpu" / "before-stop", folder / ".nbgpu" / "before-stop.log"

    def write(self, text: str, mode: int = 0o755) -> None:
        self.hook.write_text(text)
        self.hook.chmod(mode)

    def run(self, *, seconds: int = 5, notice: Path = Path("/nothing")) -> int:
        environment = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "NBGPU_NOTICE_FILE": str(notice)}
        return subprocess.run(["sh", OURS, str(seconds)], env=environment, timeout=30, check=False).returncode


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(tmp_path)


def test_the_users_script_runs_and_what_it_says_is_kept(home, tmp_path):
    home.write(WORKS)
    notice = tmp_path / "notice.json"
    notice.write_text('{"text": "It is idle.", "stop_at": "2026-11-30T12:00:00+00:00", "cause": "gpu_idle"}')
    assert home.run(notice=notice) == 0
    lines = home.log.read_text().splitlines()
    assert lines[0].endswith("the server is about to be stopped (gpu_idle)")
    assert lines[1:3] == ["saved", "cause=gpu_idle"]
    assert lines[3].endswith("ended with exit code 0")


@pytest.mark.parametrize("notice", [None, '{"text": "", "stop_at": null, "cause": null}', "garbage"])
def test_without_a_known_cause_there_is_none(home, tmp_path, notice):
    home.write(WORKS)
    file = tmp_path / "notice.json"
    if notice is not None:
        file.write_text(notice)
    assert home.run(notice=file) == 0
    assert "cause=none" in home.log.read_text()


@pytest.mark.parametrize(("text", "mode"), [(None, 0), (WORKS, 0o644)])
def test_without_an_executable_script_nothing_happens(home, text, mode):
    if text is not None:
        home.write(text, mode)
    assert home.run() == 0
    assert not home.log.exists()


def test_one_that_fails_is_told(home):
    home.write(FAILS)
    assert home.run() == 3
    assert home.log.read_text().endswith("ended with exit code 3\n")


def test_one_that_hangs_is_killed_with_what_it_began(home):
    home.write(HANGS)
    begun = time.monotonic()
    assert home.run(seconds=1) == 137
    assert time.monotonic() - begun < 10
    assert "begun" in home.log.read_text()
    assert home.log.read_text().endswith("killed: it took longer than 1 s\n")


def test_the_log_is_bounded_and_a_script_that_says_much_is_not_ended_for_it(home):
    home.write("#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x; touch ~/done")
    assert home.run() == 0
    assert (home.folder / "done").exists()
    assert 65_000 < home.log.stat().st_size < 67_000


# In a container


class Container:
    """A container of the base image, with the script that the image is to have."""

    def __init__(self, client: Any, container_id: str) -> None:
        self.client, self.id = client, container_id

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(call, self.client, method, *args, **kwargs)

    def put(self, path: str, text: str | bytes, *, user: int = 0) -> None:
        packed = io.BytesIO()
        content = text.encode() if isinstance(text, str) else text
        with tarfile.open(fileobj=packed, mode="w") as archive:
            folders = Path(path).relative_to("/").parents
            for folder in [] if user == 0 else [each for each in reversed(folders) if each.name == ".nbgpu"]:
                made = tarfile.TarInfo(str(folder))
                made.type, made.mode, made.uid, made.gid = tarfile.DIRTYPE, 0o755, user, user
                archive.addfile(made)
            info = tarfile.TarInfo(path.lstrip("/"))
            info.size, info.mode, info.uid, info.gid = len(content), 0o755, user, user
            archive.addfile(info, io.BytesIO(content))
        self.client.put_archive(self.id, "/", packed.getvalue())

    def read(self, path: str) -> str:
        made = self.client.exec_create(self.id, ["cat", path])
        return self.client.exec_start(made["Id"]).decode()


@pytest.fixture
def container() -> Iterator[Container]:
    whole = docker.from_env()
    image = find_image_id(whole, "base")
    assert image, "the base image is missing: nbgpu images build base"
    name = f"nbgpu-before-stop-{secrets.token_hex(4)}"
    made = whole.containers.run(image, ["sleep", "300"], name=name, detach=True, init=True, cap_drop=["ALL"])
    try:
        yield Container(whole.api, made.id)
    finally:
        made.remove(force=True, v=True)
        whole.close()


@pytest.fixture
def short(monkeypatch) -> None:
    monkeypatch.setattr(before_stop, "MARGIN", 1.0)


HOOK, LOG = "/home/nbgpu/.nbgpu/before-stop", "/home/nbgpu/.nbgpu/before-stop.log"


@pytest.mark.docker
async def test_it_runs_in_the_container_as_its_user(container):
    container.put(SCRIPT, OURS.read_bytes())
    container.put(NOTICE_FILE, '{"text": "…", "stop_at": null, "cause": "idle"}')
    container.put(HOOK, WORKS + "; id -un", user=1000)
    await run_in_container(container.call, container.id, 10, name="ann")
    assert "saved\ncause=idle\nnbgpu\n" in container.read(LOG)
    assert container.read("/home/nbgpu/where") == "/home/nbgpu\n"


@pytest.mark.docker
async def test_one_that_fails_in_the_container_is_logged(container, caplog):
    container.put(SCRIPT, OURS.read_bytes())
    container.put(HOOK, FAILS, user=1000)
    await run_in_container(container.call, container.id, 10, name="ann")
    assert "before the stop of ann ended with exit code 3" in caplog.text


@pytest.mark.docker
@pytest.mark.usefixtures("short")
async def test_one_that_hangs_in_the_container_holds_the_stop_up_no_longer(container, caplog):
    """Also where the image's script, which ends it, is not what it should be."""
    container.put(SCRIPT, "#!/bin/sh\nsleep 100")
    begun = time.monotonic()
    await run_in_container(container.call, container.id, 1, name="ann")
    assert 1.5 < time.monotonic() - begun < 6
    assert "before the stop of ann took longer than 1 s; it is stopped now" in caplog.text


@pytest.mark.docker
async def test_images_without_the_script_do_nothing(container, caplog):
    container.put(HOOK, WORKS, user=1000)
    made = container.client.exec_create(container.id, ["rm", "-f", SCRIPT], user="root")
    container.client.exec_start(made["Id"])
    await run_in_container(container.call, container.id, 10, name="ann")
    assert caplog.text == ""
    assert "No such file" in container.read(LOG)


@pytest.mark.docker
@pytest.mark.parametrize("state", ["ended", "paused", "gone"])
async def test_a_container_in_which_nothing_can_run_is_just_stopped(container, caplog, state):
    caplog.set_level("INFO", "nbgpu.stops")
    {
        "ended": lambda: container.client.kill(container.id),
        "paused": lambda: container.client.pause(container.id),
        "gone": lambda: setattr(container, "id", "f" * 64),
    }[state]()
    await run_in_container(container.call, container.id, 10, name="ann")
    assert "Nothing could be run before the stop of ann" in caplog.text


# Servers that are processes


@pytest.fixture
def local(tmp_path) -> Iterator[Local]:
    local = Local(tmp_path, "answer", ProcessAccess(), before_stop=5.0, before_stop_script=str(OURS))
    yield local
    local.close()


def write_hook(local: Local, text: str) -> Callable[[], str]:
    (folder := local.homes / f"{local.prefix}-home-ann" / ".nbgpu").mkdir()
    (folder / "before-stop").write_text(text)
    (folder / "before-stop").chmod(0o755)
    return (folder / "before-stop.log").read_text


async def test_a_stop_of_a_process_runs_it_while_the_server_still_runs(local):
    ann = local.users["ann"]
    await start(ann)
    log = write_hook(local, f"#!/bin/sh\nkill -0 {local.record('ann')['pid']} && echo alive as $NBGPU_SESSION_ID")
    session = ann.spawner.session_id
    await ann.stop()
    assert f"alive as {session}" in log()
    assert local.left() == (0, 0, [])


async def test_what_it_leaves_running_ends_with_the_session(local):
    ann = local.users["ann"]
    await start(ann)
    log = write_hook(local, "#!/bin/sh\nsetsid sleep 300 >/dev/null 2>&1 &\necho begun")
    await ann.stop()
    assert "begun" in log()
    assert local.left() == (0, 0, [])


async def test_at_a_stop_at_once_it_is_not_run(local):
    ann = local.users["ann"]
    await start(ann)
    log = write_hook(local, WORKS)
    await ann.spawner.stop(now=True)
    with pytest.raises(FileNotFoundError, match="before-stop.log"):
        log()
