"""The builder on a real engine, with an image that takes a second: cache, failure, two at once, Ctrl-C."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from docker import DockerClient
from typer.testing import CliRunner

from nbgpu.cli.images import app
from nbgpu.core.errors import ImageError
from nbgpu.images.builder import Ensured, ensure_image, image_state
from nbgpu.images.built import find_built, find_image_id
from nbgpu.images.catalog import Catalog, load_catalog
from nbgpu.images.lock import build_lock
from nbgpu.images.options import default_options

pytestmark = pytest.mark.docker
OPTIONS = default_options()


def build(engine: DockerClient, catalog: Catalog, lines: list[str] | None = None) -> Ensured:
    return ensure_image("test-tiny", OPTIONS, (lines or []).append, client=engine, catalog=catalog)


def test_equal_inputs_are_not_built_again(engine: DockerClient, tiny: Catalog) -> None:
    image = tiny.find("test-tiny")
    assert image_state(engine, image, tiny) == "not built"
    first = build(engine, tiny)
    lines = ["-"]
    started = time.monotonic()
    second = build(engine, tiny, lines)
    assert time.monotonic() - started < 3
    assert (first.was_built, second.was_built, second.id) == (True, False, first.id)
    assert lines == ["-", "test-tiny: up to date"]
    assert image_state(engine, image, tiny) == "built"
    (image.folder / "hello").write_text("changed")
    assert image_state(engine, image, tiny) == "out of date"
    assert build(engine, tiny).id != first.id
    assert engine.images.get(first.id).tags == ["nbgpu/test-tiny:latest-previous"]  # a start may be about to use it


def test_two_checkouts_that_take_turns_keep_their_images(engine: DockerClient, tiny: Catalog) -> None:
    hello = tiny.find("test-tiny").folder / "hello"
    for content in ("one", "two", "one", "two", "one"):
        hello.write_text(content)
        built = build(engine, tiny).id
        assert find_image_id(engine, "test-tiny") == built


def test_the_base_is_up_to_date(engine: DockerClient, base: Ensured) -> None:
    again = ensure_image("base", client=engine)
    assert (again.was_built, again.id) == (False, base.id)


def test_a_failed_build_changes_nothing_and_says_why(engine: DockerClient, tiny: Catalog) -> None:
    before = build(engine, tiny).id
    dockerfile = tiny.find("test-tiny").folder / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text() + "RUN echo the reason >&2; exit 3\n")
    with pytest.raises(ImageError, match=r"test-tiny could not be built: .*the reason .*returned a non-zero code: 3"):
        build(engine, tiny)
    assert find_image_id(engine, "test-tiny") == before


def test_two_builds_at_once_make_one_image(engine: DockerClient, tiny: Catalog) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: build(engine, tiny), range(2)))
    assert both[0].id == both[1].id
    assert sorted(ensured.was_built for ensured in both) == [False, True]


def test_a_build_that_never_ends_is_not_waited_for_without_end() -> None:
    lines: list[str] = []
    with (
        build_lock("test-lock", lines.append),
        pytest.raises(ImageError, match=r"Another build of test-lock has not ended within 0\.1 s"),
        build_lock("test-lock", lines.append, seconds=0.1),
    ):
        pass
    assert lines == ["Another build of test-lock is under way: waiting for it"]


def test_the_interrupt_of_a_build_leaves_nothing(engine: DockerClient, tiny: Catalog) -> None:
    folder = tiny.find("test-tiny").folder
    (folder / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nRUN sleep 61.7\n")
    code = (
        "from pathlib import Path; from nbgpu.images.builder import *; from nbgpu.images.catalog import image_folders\n"
        f"catalog = load_catalog([Path({str(folder.parent)!r}), *image_folders()])\n"
        "ensure_image('test-tiny', None, lambda line: print(line, flush=True), catalog=catalog)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert any(b"Running in" in line for line in process.stdout or ())
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) != 0
    deadline = time.monotonic() + 20
    while containers := [c for c in engine.containers.list() if "sleep 61.7" in str(c.attrs["Config"]["Cmd"])]:
        assert time.monotonic() < deadline, containers
    assert find_image_id(engine, "test-tiny") is None


def test_what_others_tagged_is_not_ours(engine: DockerClient, base: Ensured) -> None:
    engine.images.get(base.id).tag("nbgpu/test-impostor", "latest")
    try:
        assert find_built(engine, "test-impostor") is None
    finally:
        engine.images.remove("nbgpu/test-impostor:latest")


def test_an_unknown_slug_is_refused_before_anything_is_asked() -> None:
    result = CliRunner().invoke(app, ["build", "ubuntu:latest"])
    assert isinstance(result.exception, ImageError)
    assert str(result.exception).startswith('There is no image "ubuntu:latest" in the catalogue')


def test_the_cpu_variant_without_its_wheel_says_how_to_get_it(engine: DockerClient, base: Ensured) -> None:
    with pytest.raises(ImageError, match=r"--wheels: `pip download .*torch==2\.13\.0\+cpu"):
        ensure_image("pytorch", default_options().but(variant="cpu", index=None), client=engine)


def test_list_shows_the_catalogue(base: Ensured) -> None:
    result = CliRunner().invoke(app, ["list", "--json"])
    assert result.exit_code == 0, result.output
    assert base.id in result.output
    table = CliRunner().invoke(app, ["list"], env={"COLUMNS": "160"})
    assert base.id.removeprefix("sha256:")[:12] in table.output
    assert [image.slug in table.output for image in load_catalog()] == [True, True]
