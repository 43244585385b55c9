"""The inputs of a build: their hash, the wheels that are used, the context, the machine's own options."""

import io
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nbgpu.core.errors import ImageError
from nbgpu.images.catalog import image_folders, load_catalog
from nbgpu.images.inputs import bare_inputs, complete_inputs
from nbgpu.images.options import BuildOptions, default_options
from nbgpu.images.panel_wheel import build_panel_wheel, panel_requirements

from .conftest import TINY, TINY_DOCKERFILE

Write = Callable[..., Path]
NONE = BuildOptions()
PEM = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"


@pytest.fixture
def site(tmp_path: Path) -> dict[str, BuildOptions]:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(PEM)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in (
        "torch-2.13.0+cpu-x.whl",
        "torch-2.13.0-x.whl",
        "sympy-1.14.0-x.whl",
        "Typing_Extensions-4.16.0-x.whl",
    ):
        (wheels / name).write_bytes(b"wheel")
    return {
        "ca_bundle": BuildOptions(ca_bundle=bundle),
        "index": BuildOptions(index="https://mirror.example/simple"),
        "wheels": BuildOptions(wheels=wheels),
    }


def test_equal_inputs_have_equal_hashes_and_contexts(write_image: Write) -> None:
    image = load_catalog([write_image(TINY, Dockerfile=TINY_DOCKERFILE, hello="a").parent, *image_folders()]).find(
        "test-tiny"
    )
    first, second = (bare_inputs(image, NONE, "sha256:1") for _ in range(2))
    assert first.hash == second.hash
    contexts = io.BytesIO(), io.BytesIO()
    first.write_context(contexts[0])
    second.write_context(contexts[1])
    assert contexts[0].getvalue() == contexts[1].getvalue()


def test_everything_that_goes_in_changes_the_hash(write_image: Write, site: dict[str, BuildOptions]) -> None:
    base = load_catalog().find("base")
    pytorch = load_catalog().find("pytorch")
    hashes = [bare_inputs(base, options, "sha256:1").hash for options in (NONE, *site.values())]
    hashes += [bare_inputs(base, NONE, "sha256:2").hash]
    hashes += [bare_inputs(pytorch.in_variant(v), NONE, "sha256:1").hash for v in ("cuda", "cpu")]
    place = write_image(TINY, Dockerfile=TINY_DOCKERFILE, hello="a")
    tiny = load_catalog([place.parent, *image_folders()]).find("test-tiny")
    hashes.append(bare_inputs(tiny, NONE, "sha256:1").hash)
    (place / "hello").write_text("b")
    hashes.append(bare_inputs(tiny, NONE, "sha256:1").hash)
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize(
    ("slug", "variant", "expected"),
    [
        ("base", None, {"Typing_Extensions-4.16.0-x.whl"}),
        ("pytorch", "cpu", {"torch-2.13.0+cpu-x.whl", "sympy-1.14.0-x.whl"}),
        ("pytorch", "cuda", {"torch-2.13.0-x.whl", "sympy-1.14.0-x.whl"}),
    ],
)
def test_only_wheels_of_the_image_and_its_variant_are_used(
    site: dict[str, BuildOptions], slug: str, variant: str | None, expected: set[str]
) -> None:
    image = load_catalog().find(slug).in_variant(variant)
    assert set(bare_inputs(image, site["wheels"], "sha256:1").wheels) == expected


def test_people_get_the_settings_of_the_site_and_only_then(site: dict[str, BuildOptions]) -> None:
    plain, bundled, mirrored = (
        complete_inputs(options, "x").files["Dockerfile"].decode()
        for options in (NONE, site["ca_bundle"], site["index"])
    )
    for name in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        assert f"ENV {name}=" not in plain
        assert f"ENV {name}=" in bundled
    assert 'ENV PIP_INDEX_URL="https://mirror.example/simple"' in mirrored


def test_the_contexts_hold_the_wheels_and_the_panel(site: dict[str, BuildOptions]) -> None:
    bare = bare_inputs(load_catalog().find("base"), site["wheels"], "x")
    for inputs, name in ((bare, "wheels/Typing_Extensions-4.16.0-x.whl"), (complete_inputs(NONE, "x"), "panel/nbgpu-")):
        context = io.BytesIO()
        inputs.write_context(context)
        context.seek(0)
        with tarfile.open(fileobj=context) as archive:
            assert any(member.startswith(name) for member in archive.getnames())


def test_a_folder_without_a_dockerfile_is_refused(write_image: Write) -> None:
    image = load_catalog([write_image(TINY).parent, *image_folders()]).find("test-tiny")
    with pytest.raises(ImageError, match=r"there is no Dockerfile beside image\.toml"):
        bare_inputs(image, NONE, "x")


def test_the_panel_wheel_has_the_panel_and_nothing_of_the_hub() -> None:
    _, content = build_panel_wheel()
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert "nbgpu/panel/__init__.py" in names
    assert {name.split("/")[1] for name in names if name.startswith("nbgpu/")} == {"core", "nvml", "panel"}
    shared = {name.partition(".data/data/")[2] for name in names if ".data/data/" in name}
    assert "etc/jupyter/jupyter_server_config.d/nbgpu.json" in shared
    assert "share/jupyter/labextensions/@nbgpu/panel/static/remoteEntry.js" in shared
    assert any(requirement.startswith("nvidia-ml-py") for requirement in panel_requirements())
    assert build_panel_wheel()[1] == content


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"wheels": Path("/nowhere")}, r"--wheels: /nowhere is no folder"),
        ({"ca_bundle": Path("/etc/hostname")}, r"--ca-bundle: /etc/hostname is no PEM"),
        ({"index": "file:///x"}, r"--index: 'file:///x' is not allowed"),
        ({"index": "https://me:secret@mirror.example/simple"}, r"--index: the URL has a password"),
    ],
)
def test_wrong_options_say_what_is_allowed(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ImageError, match=complaint):
        replace(NONE, **change)  # type: ignore[arg-type]


def test_the_machines_own_options_are_pips(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(PEM)
    (tmp_path / "pip.conf").write_text(f"[global]\ncert = {bundle}\nindex-url = https://a.example/simple\n")
    environ = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path)}
    assert default_options(environ) == BuildOptions(ca_bundle=bundle, index="https://a.example/simple")
    over = {**environ, "PIP_INDEX_URL": "https://me:secret@b.example/simple"}
    assert default_options(over).index is None  # a password would be readable in the image
