"""The doctor: each fault is found and told with what to do; a check that can't be made is a finding, too."""

import http.server
import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import requests

from nbgpu.core.devices import Device
from nbgpu.core.errors import HubUnavailable
from nbgpu.core.findings import Level
from nbgpu.core.menu import Menu
from nbgpu.core.reconcile import Finding as Disagreement
from nbgpu.core.reconcile import Repair
from nbgpu.machine import checks
from nbgpu.machine.doctor import CHECKS, Subject, examine
from nbgpu.store import open_database
from nbgpu.wiring.deployment import open_deployment
from nbgpu.wiring.service import service_port
from support.answering import Answering
from support.site import FLAVORS, FixedInventory

A100 = Device(uuid="GPU-0", name="NVIDIA A100", index=0)
INFO = {"Driver": "overlay2", "CgroupVersion": "2", "LiveRestoreEnabled": True, "DockerRootDir": "/"}


class Engine:
    """The answers of a Docker engine that the checks read."""

    def __init__(self, **info: object) -> None:
        self._info = INFO | {"SystemTime": datetime.now(UTC).isoformat()} | info
        self.api_version = "1.47"

    def version(self) -> dict[str, str]:
        return {"Version": "27.0", "ApiVersion": self.api_version}

    def info(self) -> dict[str, object]:
        return self._info


@pytest.fixture
def site(tmp_path):
    """A healthy site's parts, as the checks use them; tests break one."""
    deployment = open_deployment(tmp_path / "data")
    deployment.secret("demo-admin-token")
    database = open_database(deployment.database_url)
    yield SimpleNamespace(
        deployment=deployment,
        is_local=False,
        inventory=FixedInventory((A100,)),
        docker=Engine(),
        database=database,
        menu=Menu(FLAVORS),
        reconciler=SimpleNamespace(compare=lambda: ()),
    )
    database.dispose()


def test_a_gpu_with_a_problem_is_named(site):
    site.inventory.devices = (A100, Device(uuid="GPU-1", problem="The GPU is lost."))
    found = checks.check_driver(site)
    assert found.level is Level.FAIL
    assert "GPU-1: The GPU is lost." in found.found


def test_a_driver_that_cant_be_asked_is_told(site):
    site.inventory.problem = "The NVIDIA driver was updated: restart this machine."
    assert checks.check_driver(site).found == "The NVIDIA driver was updated: restart this machine."


@pytest.mark.parametrize(
    ("said", "level", "part"),
    [
        ("cli-version: 1.17.8\n", Level.OK, "1.17.8"),
        ("cli-version: 1.18.0\n", Level.OK, "1.18.0"),
        ("cli-version: 1.17.7\n", Level.FAIL, "has known holes"),
        ("no version here", Level.FAIL, "of unknown version"),
        (None, Level.FAIL, "is not installed"),
    ],
)
def test_the_toolkit_must_be_there_and_safe(site, tmp_path, monkeypatch, said, level, part):
    monkeypatch.setenv("PATH", str(tmp_path))
    if said is not None:
        tool = tmp_path / "nvidia-container-cli"
        tool.write_text(f"#!/bin/sh\necho '{said}'\n")
        tool.chmod(0o755)
    found = checks.check_toolkit(site)
    assert found.level is level
    assert part in found.found


@pytest.mark.parametrize(
    ("break_", "level", "part"),
    [
        (lambda site: None, Level.OK, "Docker 27.0"),
        (lambda site: setattr(site.docker, "api_version", "1.24"), Level.FAIL, "too old"),
        (lambda site: site.docker.info().update(LiveRestoreEnabled=False), Level.WARN, "live-restore"),
    ],
)
def test_docker_must_be_new_enough_and_keep_containers(site, break_, level, part):
    break_(site)
    found = checks.check_docker(site)
    assert found.level is level
    assert part in found.found


@pytest.mark.parametrize(
    ("theirs", "level"),
    [
        (lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f123Z"), Level.OK),
        (lambda: datetime.now(UTC).astimezone().isoformat(), Level.OK),
        (lambda: (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%f123Z"), Level.FAIL),
    ],
)
def test_clocks_must_agree(site, theirs, level):
    site.docker = Engine(SystemTime=theirs())
    assert checks.check_clock(site).level is level


@pytest.mark.parametrize(("free", "level"), [(50 * 2**30, Level.OK), (5 * 2**30, Level.WARN), (2**29, Level.FAIL)])
def test_disk_must_be_left(site, monkeypatch, free, level):
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    assert checks.check_disk(site).level is level


def test_a_damaged_database_is_found(site):
    assert checks.check_database(site).level is Level.OK
    file = site.deployment.data / "nbgpu.sqlite"
    site.database.dispose()
    (file.parent / "nbgpu.sqlite-wal").unlink(missing_ok=True)
    content = bytearray(file.read_bytes())
    content[4096:8192] = b"\xff" * 4096
    file.write_bytes(content)
    assert checks.check_database(site).level is Level.FAIL


def test_secrets_that_others_can_read_are_named(site):
    assert checks.check_secrets(site).level is Level.OK
    token = site.deployment.admin_token_file
    token.chmod(0o644)
    found = checks.check_secrets(site)
    assert (found.level, found.advice) == (Level.FAIL, f"chmod 600 {token}")
    token.chmod(0o600)
    site.deployment.data.chmod(0o755)
    assert checks.check_secrets(site).advice == f"chmod 700 {site.deployment.data}"


def test_a_hub_that_does_not_answer_is_told(site, monkeypatch):
    assert "does not run" in checks.check_hub(site).found
    monkeypatch.setattr(checks, "hub_pid", lambda deployment: 1234)
    assert checks.check_hub(site).level is Level.OK
    site.reconciler.compare = lambda: (Disagreement("s", Repair.UNDO, "a start that was broken off"),)
    assert "a start that was broken off" in checks.check_hub(site).found

    def refuse() -> None:
        raise HubUnavailable("no answer")

    site.reconciler.compare = refuse
    assert checks.check_hub(site).level is Level.FAIL


WELL = {"stale": False, "sampled_s_ago": 1.2, "problem": None}
LATE = {"stale": True, "error": "The disk is full."}


@pytest.mark.parametrize(
    ("health", "level", "part"),
    [
        ({"status": "ok", "sampler": WELL, "loops": {"usage": {"stale": False}}}, Level.OK, "sampled 1 s ago"),
        ({"status": "starting", "problem": "No database."}, Level.WARN, "starting: No database."),
        ({"sampler": WELL | {"stale": True, "sampled_s_ago": 90.0, "problem": "Lost."}}, Level.FAIL, "90 s ago. Lost."),
        ({"sampler": WELL | {"stale": True, "sampled_s_ago": None}}, Level.FAIL, "not sampled yet"),
        ({"sampler": WELL, "loops": {"usage": LATE}}, Level.FAIL, "usage (The disk is full.)"),
        (None, Level.FAIL, "does not answer"),
    ],
)
def test_a_sampler_that_is_stale_is_told(site, monkeypatch, health, level, part):
    assert checks.check_sampler(site).level is Level.WARN, "the hub does not run"
    monkeypatch.setattr(checks, "hub_pid", lambda deployment: 1234)
    with serving(site.deployment, health):
        found = checks.check_sampler(site)
    assert found.level is level
    assert part in found.found


@contextmanager
def serving(deployment, health):
    """Answer as the service does, at its port; None: nobody does."""
    if health is None:
        yield
        return

    class Health(Answering):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(health).encode())

    server = http.server.ThreadingHTTPServer(("127.0.0.1", service_port(deployment)), Health)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("built", "old", "level", "advice"),
    [
        ({"base", "pytorch"}, set(), Level.OK, ""),
        ({"base", "pytorch"}, {"pytorch"}, Level.WARN, "nbgpu images build pytorch"),
        ({"base"}, {"base"}, Level.WARN, "nbgpu images build pytorch"),
        (set(), set(), Level.FAIL, "nbgpu images build base pytorch"),
    ],
)
def test_images_of_the_menu_must_be_built_and_current(site, monkeypatch, built, old, level, advice):
    monkeypatch.setattr(
        checks, "image_state", lambda client, image, catalog: "out of date" if image.slug in old else "built"
    )
    monkeypatch.setattr(checks, "find_image_id", lambda client, slug: "sha256:1" if slug in built else None)
    found = checks.check_images(site)
    assert (found.level, found.advice) == (level, advice)


def test_what_cant_be_checked_is_a_finding_and_the_rest_goes_on(site):
    class Dead:
        def __getattr__(self, name: str) -> object:
            raise requests.ConnectionError("refused")

    site.docker = Dead()
    report = examine(site)
    assert [finding.subject for finding in report.findings] == list(CHECKS)
    levels = {finding.subject: finding.level for finding in report.findings}
    assert levels[Subject.DOCKER] is levels[Subject.DISK] is Level.FAIL
    assert levels[Subject.DATABASE] is Level.OK
    assert not report.healthy


def test_without_docker_nothing_of_docker_is_looked_at(site):
    site.is_local, site.docker = True, None
    report = examine(site)
    subjects = [finding.subject for finding in report.findings]
    assert subjects == ["driver", "hub", "sampler", "disk", "database", "secrets"]
    assert report.healthy
