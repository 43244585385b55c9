"""The catalogue: the committed images, order, look-up; importing it needs no Docker."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nbgpu.core.errors import ImageError
from nbgpu.images.built import apply_labels, build_labels, image_reference
from nbgpu.images.catalog import image_folders, load_catalog

from .conftest import TINY

Write = Callable[..., Path]


def test_the_committed_catalogue_is_in_building_order() -> None:
    assert [image.slug for image in load_catalog()] == ["base", "pytorch"]
    assert [image.slug for image in load_catalog().with_bases(["pytorch"])] == ["base", "pytorch"]
    assert [image.slug for image in load_catalog().with_bases(["base"])] == ["base"]


def test_a_checkout_uses_its_own_folders() -> None:
    assert image_folders() == (Path(__file__).parents[2] / "images",)


def test_an_unknown_slug_is_refused_with_those_there_are() -> None:
    with pytest.raises(ImageError, match=r'no image "ubuntu" in the catalogue; it has: base, pytorch'):
        load_catalog().find("ubuntu")


def test_the_first_folder_wins(write_image: Write, tmp_path: Path) -> None:
    first = write_image(TINY).parent
    other = tmp_path / "other" / "test-tiny"
    other.mkdir(parents=True)
    (other / "image.toml").write_text(TINY.replace('"Tiny"', '"Second"'))
    assert load_catalog([first, other.parent, *image_folders()]).find("test-tiny").display_name == "Tiny"


@pytest.mark.parametrize("base", ["test-tiny", "nowhere"])
def test_a_base_that_leads_nowhere_is_refused(write_image: Write, base: str) -> None:
    folder = write_image(TINY.replace('base = "base"', f'base = "{base}"')).parent
    with pytest.raises(ImageError, match=rf"base: '{base}' leads to no Debian"):
        load_catalog([folder])


@pytest.mark.parametrize("name", ["", "ubuntu:latest", "../x", "a/b", "A", "a" * 31, "x@sha256:0", "-a", "a\n"])
def test_only_names_of_the_catalogue_become_references(name: str) -> None:
    with pytest.raises(ImageError, match=r"is no image of the catalogue"):
        image_reference(name)


def test_labels_give_back_what_was_built() -> None:
    pytorch = load_catalog().find("pytorch")
    cpu = pytorch.in_variant("cpu")
    said = apply_labels(pytorch, build_labels(cpu))
    assert (said.variant, said.cuda, said.cudnn, said.minimum_driver) == ("cpu", None, None, None)
    assert (said.description, dict(said.frameworks)) == (cpu.description, dict(cpu.frameworks))


def test_the_catalogue_needs_no_docker() -> None:
    code = "import sys, nbgpu.images.catalog; sys.exit('docker' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
