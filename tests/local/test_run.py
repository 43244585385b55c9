"""`nbgpu run` to the end without a Docker engine, with the real JupyterLab: as this account, and without its rights."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from e2e.running import until
from local.running import LocalRun
from nbgpu.machine.host import Host
from nbgpu.machine.notebook import ensure_notebook
from nbgpu.machine.proxy import default_cache

ROOT = Path(__file__).parents[2]
SERVERS = {"cy": "cpu", "gus": "a100x2", "mia": "mig-1g", "sam": "t4-shared"}
NOBODY = 65534
WITHOUT_RIGHTS = {
    "nobody": (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"),
    "root of a locked-down container": ("--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"),
}


@pytest.fixture(scope="module", autouse=True)
def notebook_environment() -> None:
    """What servers run in is there before any time is taken."""
    ensure_notebook(Host(), default_cache(), print)


def write_settings(folder: Path, kind: str) -> Path:
    file = folder / "nbgpu.toml"
    file.write_text(f'{(ROOT / "nbgpu.toml").read_text()}\n[engine]\nkind = "{kind}"\n')
    return file


@pytest.fixture
def run(tmp_path) -> Iterator[LocalRun]:
    run = LocalRun(tmp_path, write_settings(tmp_path, "auto"))
    yield run
    run.close()


def test_from_the_first_start_to_the_purge(run):
    run.start()
    assert "servers run as processes of this account" in run.said
    page = httpx.get(f"{run.url}/login").text
    assert "no walls between them" in page
    for user, profile in SERVERS.items():
        run.ask_for(user, profile)
    for user in SERVERS:
        until(lambda user=user: run.is_ready(user), seconds=40)
    assert {user: run.notebook(user, "api/status").status_code for user in SERVERS} == dict.fromkeys(SERVERS, 200)
    held = {lease["username"]: lease["devices"] for lease in run.leases()}
    assert {user: len(devices) for user, devices in held.items()} == {"cy": 0, "gus": 2, "mia": 1, "sam": 1}
    assert all(user in run.command("gpus", config=True) for user in ("gus", "mia", "sam"))
    refusal = run.api.post("/users/cy/servers/lab", json={"profile": "cpu", "image": "pytorch"})
    assert refusal.status_code == 503

    # The hub is killed with all that hangs on it; notebooks go on, and the next hub serves them.
    run.end(signal.SIGKILL)
    until(lambda: not hub_processes(run), seconds=20)
    run.start()
    assert all(run.is_ready(user) for user in SERVERS)
    assert run.notebook("gus", "api/status").status_code == 200
    assert run.api.delete("/users/sam/server").status_code in (202, 204)
    until(lambda: "" not in run.api.get("/users/sam").json()["servers"])
    run.end(signal.SIGINT)
    assert "Notebooks: 3 ended" in run.command("down")
    assert run.processes() == []
    assert len(list((run.data / "homes").iterdir())) == 4
    assert "Homes: 4 deleted" in run.command("purge", "--yes")
    assert not run.data.exists()


def hub_processes(run: LocalRun) -> list[int]:
    """Return those that are no servers."""
    names = {pid: Path(f"/proc/{pid}/cmdline") for pid in run.processes()}
    return [pid for pid, path in names.items() if path.exists() and "singleuser" not in path.read_text()]


@pytest.fixture(params=WITHOUT_RIGHTS)
def run_without_rights(request) -> Iterator[LocalRun]:
    """A deployment of an account that may do nothing but run its own processes."""
    if os.geteuid() != 0:
        pytest.skip("only root can give its rights up; the test above has run without them")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is missing (util-linux)")
    prefix = ("setpriv", *WITHOUT_RIGHTS[request.param])
    # In a second process: setpriv's own exec still has root's rights.
    probe = ["sh", "-c", '"$0" -c "import nbgpu.cli.main"', sys.executable]
    if subprocess.run([*prefix, *probe], check=False, capture_output=True, cwd="/").returncode:
        pytest.skip("the account can't read this checkout or its Python")
    folder = Path(tempfile.mkdtemp(prefix="nbgpu-"))
    settings = write_settings(folder, "local")
    if request.param == "nobody":
        os.chown(folder, NOBODY, NOBODY)
    run = LocalRun(folder, settings, prefix)
    try:
        yield run
    finally:
        run.close()
        shutil.rmtree(folder)


def test_an_account_without_rights_can_try_it(run_without_rights):
    run = run_without_rights
    run.start()
    run.ask_for("gus", "a100")
    until(lambda: run.is_ready("gus"), seconds=40)
    assert run.notebook("gus", "api/status").status_code == 200
    owners = {Path(f"/proc/{pid}").stat().st_uid for pid in run.processes()}
    assert owners == {run.data.stat().st_uid}
    run.end(signal.SIGTERM)
    run.command("purge", "--yes")
    assert run.processes() == []
