"""What is really inside the images, compared with image.toml and the constraints; asked once an image."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from nbgpu.images.builder import Ensured, ensure_image
from nbgpu.images.built import describe_built, find_built, find_image_id, image_reference
from nbgpu.images.catalog import load_catalog
from nbgpu.images.manifest import Image
from nbgpu.images.options import default_options

pytestmark = pytest.mark.docker
SCRIPT = Path(__file__).with_name("inside.py").read_text()
ROOT = Path(__file__).parents[2]


def look_inside(engine: DockerClient, image_id: str) -> dict[str, Any]:
    command = ["/opt/nbgpu/bin/python", "-c", SCRIPT]
    container = engine.containers.run(image_id, command, detach=True, network_mode="none")
    try:
        status = container.wait(timeout=300)["StatusCode"]
        assert status == 0, container.logs().decode()
        found: dict[str, Any] = json.loads(container.logs(stderr=False))
    finally:
        container.remove(force=True)
    return found


@pytest.fixture(scope="module")
def cpu_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with PyTorch's CPU build, kept from run to run; skip where this machine's pip can't get it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "nbgpu", "wheels")
    version = load_catalog().find("pytorch").in_variant("cpu").frameworks["torch"]
    if not any(cache.glob(f"torch-{version}-*.whl")):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", "3.11", "--dest", str(cache), f"torch=={version}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            pytest.skip(f"pip can't get torch {version} here: {done.stderr.strip().splitlines()[-1]}")
    return cache


@pytest.fixture(scope="module")
def pytorch(engine: DockerClient, cpu_wheels: Path) -> Iterator[Ensured]:
    """The CPU variant; the one that servers were started from before is that again afterwards."""
    before = find_built(engine, "pytorch")
    yield ensure_image("pytorch", default_options().but(variant="cpu", wheels=cpu_wheels), print, client=engine)
    if before is not None and before.labels.get("org.nbgpu.variant") != "cpu":
        engine.api.tag(before.id, *image_reference("pytorch").split(":"))


@pytest.fixture(scope="module", params=["base", "pytorch"])
def image(request: pytest.FixtureRequest) -> Ensured:
    ensured: Ensured = request.getfixturevalue(request.param)
    return ensured


_seen: dict[str, dict[str, Any]] = {}


@pytest.fixture(scope="module")
def inside(engine: DockerClient, image: Ensured) -> dict[str, Any]:
    if image.id not in _seen:
        _seen[image.id] = look_inside(engine, image.id)
    return _seen[image.id]


def render_cudnn(number: int | None) -> str | None:
    """Return cuDNN's version as people write it: 92000 is "9.20.0"."""
    return None if number is None else f"{number // 10000}.{number % 10000 // 100}.{number % 100}"


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(image: Image) -> dict[str, str]:
    files = [load_catalog().find("base").folder / "constraints.txt", image.folder / "constraints.txt"]
    lines = [line for file in files for line in file.read_text().splitlines() if "==" in line]
    return {normal(name): version for name, _, version in (line.partition("==") for line in lines)}


def test_image_toml_is_true(image: Ensured, inside: dict[str, Any]) -> None:
    assert inside["python"] == image.image.python
    there = {normal(name): version for name, version in inside["distributions"].items()}
    for name, version in image.image.frameworks.items():
        assert there[normal(name)] == version
    torch = inside["torch"] or {"cuda": None, "cudnn": None}
    assert "problem" not in torch, torch
    assert torch["cuda"] == image.image.cuda
    assert render_cudnn(torch["cudnn"]) == image.image.cudnn


def test_the_labels_say_the_same(engine: DockerClient, image: Ensured) -> None:
    assert find_image_id(engine, image.image.slug) == image.id
    described = describe_built(engine, load_catalog().find(image.image.slug))
    assert described is not None
    assert (described.variant, described.cuda) == (image.image.variant, image.image.cuda)
    assert dict(described.frameworks) == dict(image.image.frameworks)


def test_every_package_is_pinned(image: Ensured, inside: dict[str, Any]) -> None:
    expected = pins(image.image) | {normal(name): version for name, version in image.image.frameworks.items()}
    there = {normal(name): version for name, version in inside["distributions"].items()}
    there.pop("nbgpu")
    assert {name: expected.get(name) for name in there} == there
    assert inside["pip_check"] == "No broken requirements found."


def test_the_user_is_not_root_and_can_write_nothing_of_the_image(inside: dict[str, Any]) -> None:
    assert (inside["uid"], inside["home"]) == (1000, "/home/nbgpu")
    assert inside["writable"] == []
    assert inside["first_process"] == "/usr/bin/tini"


def test_every_module_has_bytecode_that_stays_valid(inside: dict[str, Any]) -> None:
    assert inside["bytecode"]["count"] > 4000
    assert inside["bytecode"]["missing"] == []
    assert inside["bytecode"]["checked"] == []
    assert not inside["rfc3987_syntax"]


def test_people_install_into_their_home_over_what_the_image_brings(inside: dict[str, Any]) -> None:
    own = inside["own_packages"]
    assert own["kernel_file"].startswith("/home/nbgpu/.local/lib/python3.11/"), own["pip"]
    assert own["kernel_idna"] == "99.0"
    assert own["server_file"].startswith("failed")  # the server never sees it: it can't be broken by it
    assert own["server_idna"] == own["idna_after"] == inside["distributions"]["idna"]
    assert inside["kernel"] == "/usr/bin/python3"


def test_no_gpu_is_visible_unless_the_start_gives_one(inside: dict[str, Any]) -> None:
    assert inside["environment"]["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_jupyterlab_works_and_asks_nobody_outside(inside: dict[str, Any], image: Ensured) -> None:
    boot = inside["boot"]
    assert "problem" not in boot, boot
    assert inside["jupyter_lab"] == load_catalog().find("base").frameworks["jupyterlab"]
    assert boot["terminals"] == []
    assert boot["contents"] == "directory"
    assert boot["kernelspec"][0] == "/usr/bin/python3"
    assert boot["page"]["extensionManager"]["can_install"] is False
    assert "@jupyterlab/apputils-extension:announcements" in boot["page"]["disabledExtensions"]
    assert boot["sanitizer"]["properties"]["allowCommandLinker"]["default"] is False


def test_nothing_that_is_committed_names_a_registry_host() -> None:
    hosts = re.compile(r"pypi\.org|pythonhosted|docker\.io|deb\.debian\.org|pytorch\.org")
    files = [p for p in (ROOT / "images").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert [p for p in files if hosts.search(p.read_text())] == []
