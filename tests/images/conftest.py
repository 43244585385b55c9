"""The engine, the base image and a throwaway catalogue with an image that is built in a second."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from docker import DockerClient
from docker.errors import ImageNotFound

from nbgpu.core.errors import EngineUnavailable
from nbgpu.images.builder import Ensured, connect, ensure_image
from nbgpu.images.catalog import Catalog, image_folders, load_catalog

TINY = """\
slug = "test-tiny"
display_name = "Tiny"
description = "For tests."
base = "base"
python = "3.11"
cuda = "none"
cudnn = "none"
minimum_driver = "none"

[frameworks]
"""
TINY_DOCKERFILE = """\
ARG BASE
FROM ${BASE}
COPY hello /hello
"""


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerClient]:
    try:
        client = connect()
    except EngineUnavailable as error:
        pytest.skip(str(error))
    yield client
    client.close()


@pytest.fixture(scope="session")
def base(engine: DockerClient) -> Ensured:
    return ensure_image("base", report=print, client=engine)


@pytest.fixture
def write_image(tmp_path: Path) -> Callable[..., Path]:
    def write(toml: str, *, folder: str = "test-tiny", **files: str) -> Path:
        place = tmp_path / "images" / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / "image.toml").write_text(toml)
        for name, content in files.items():
            (place / name).write_text(content)
        return place

    return write


@pytest.fixture
def tiny(write_image: Callable[..., Path], engine: DockerClient, base: Ensured) -> Iterator[Catalog]:
    place = write_image(TINY, Dockerfile=TINY_DOCKERFILE, hello="hello")
    yield load_catalog([place.parent, *image_folders()])
    for tag in ("latest", "bare", "latest-previous", "bare-previous"):
        with suppress(ImageNotFound):
            engine.images.remove(f"nbgpu/test-tiny:{tag}", force=True)
