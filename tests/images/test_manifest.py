"""image.toml: what is read, and errors that name the file, the key, the value and what is allowed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nbgpu.core.errors import ImageError
from nbgpu.images.manifest import read_image

GOOD = """\
slug = "mine"
display_name = "Mine"
description = "What it is."
base = "base"
python = "3.11"
variant = "cuda"
cuda = "13.0"
cudnn = "none"
minimum_driver = "580"

[frameworks]
torch = "2.13.0"
numpy = "2.4.6"

[variants.cpu]
cuda = "none"
minimum_driver = "none"
frameworks.torch = "2.13.0+cpu"
"""

Write = Callable[..., Path]


def test_reads_every_key(write_image: Write) -> None:
    folder = write_image(GOOD, folder="mine")
    image = read_image(folder / "image.toml")
    assert (image.slug, image.cuda, image.cudnn, image.minimum_driver) == ("mine", "13.0", None, "580")
    assert dict(image.frameworks) == {"torch": "2.13.0", "numpy": "2.4.6"}
    assert image.folder == folder
    assert image.has_catalogue_base


def test_a_variant_changes_what_it_names_and_nothing_else(write_image: Write) -> None:
    image = read_image(write_image(GOOD, folder="mine") / "image.toml")
    cpu = image.in_variant("cpu")
    assert (cpu.variant, cpu.cuda, cpu.minimum_driver, cpu.python) == ("cpu", None, None, "3.11")
    assert dict(cpu.frameworks) == {"torch": "2.13.0+cpu", "numpy": "2.4.6"}
    assert image.in_variant(None) is image
    assert image.in_variant("cuda") is image


def test_an_unknown_variant_is_refused_with_those_there_are(write_image: Write) -> None:
    image = read_image(write_image(GOOD, folder="mine") / "image.toml")
    with pytest.raises(ImageError, match=r'"mine" has no variant "rocm"; it has: cpu, cuda'):
        image.in_variant("rocm")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('slug = "mine"', 'slug = "other"', r"slug: 'other' is not allowed; it must be the name of its folder"),
        ('slug = "mine"', 'slug = "../x"', r"slug: '\.\./x' is not allowed; it must be 1 to 30 of a-z"),
        ('display_name = "Mine"', 'display_name = ""', r"display_name: '' is not allowed; it must be one line"),
        ('display_name = "Mine"', "display_name = 7", r"display_name: 7 is not allowed"),
        ('python = "3.11"', 'python = "2.7"', r"python: '2\.7' is not allowed; it must be a Python release"),
        ('cuda = "13.0"', 'cuda = "latest"', r"cuda: 'latest' is not allowed; it must be a version, or \"none\""),
        ('cuda = "13.0"\n', "", r"cuda: missing; it must be a version"),
        ('base = "base"', 'base = "ubuntu:24.04"', r"base: 'ubuntu:24\.04' is not allowed; it must be a slug"),
        ('python = "3.11"', 'pyhton = "3.11"', r"pyhton: unknown key; allowed are base, cuda"),
        ('torch = "2.13.0"', "torch = 2", r"frameworks\.torch: 2 is not allowed; it must be a version"),
        ("[variants.cpu]", "[variants.CPU]", r"variants\.CPU: .* is not allowed; it must be a table; its name is"),
        ('cuda = "none"\nm', 'slug = "x"\nm', r"variants\.cpu\.slug: unknown key; allowed are cuda, cudnn"),
        ('cuda = "none"\nm', 'cuda = "?"\nm', r"variants\.cpu\.cuda: '\?' is not allowed"),
        ('variant = "cuda"\n', "", r"variant: missing; where there are variants"),
        ("[frameworks]", "[frameworks", r"is not valid TOML"),
    ],
)
def test_errors_say_where_what_and_what_is_allowed(write_image: Write, old: str, new: str, complaint: str) -> None:
    assert old in GOOD
    file = write_image(GOOD.replace(old, new, 1), folder="mine") / "image.toml"
    with pytest.raises(ImageError, match=complaint) as caught:
        read_image(file)
    assert str(file) in str(caught.value)


def test_a_missing_file_is_an_image_error(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"can't be read"):
        read_image(tmp_path / "image.toml")
