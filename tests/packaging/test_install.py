"""The packages, built and installed as people do: four source roots, one namespace."""

import json
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ("hub", "spawner", "images", "extensions")
PACKAGES = {
    folder.name: folder
    for root in SOURCE_ROOTS
    for folder in (ROOT / root / "nbgpu").iterdir()
    if (folder / "__init__.py").exists()
}
IMPORT_ALL = """
import importlib, json, sys
print(json.dumps({name: importlib.import_module(name).__file__ for name in json.loads(sys.argv[1])}))
"""


def _modules() -> list[str]:
    """Every module of ours by its full name, read from the source tree."""
    names = []
    for package, folder in PACKAGES.items():
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder).with_suffix("").parts
            if (file.parent / "__init__.py").exists() and "versions" not in parts and parts[-1] != "env":
                names.append(".".join(("nbgpu", package, *(part for part in parts if part != "__init__"))))
    return names


def test_every_source_root_has_a_package():
    assert {folder.parents[1].name for folder in PACKAGES.values()} == set(SOURCE_ROOTS)


def test_namespace_has_no_init_file():
    """One would hide the other roots, and in editable mode only."""
    assert not list(ROOT.glob("*/nbgpu/__init__.py"))


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_package_is_typed(package):
    assert (PACKAGES[package] / "py.typed").is_file()


def test_all_modules_import(installed):
    names = _modules()
    code = IMPORT_ALL.replace("sys.argv[1]", repr(json.dumps(names)))
    found = json.loads(installed.python(code))
    assert set(found) == set(names)


def test_regular_install_does_not_see_the_checkout(regular):
    found = json.loads(regular.python(IMPORT_ALL.replace("sys.argv[1]", repr(json.dumps(_modules())))))
    assert all(Path(file).is_relative_to(regular.prefix) for file in found.values())


def test_editable_install_runs_from_the_checkout(editable):
    found = json.loads(editable.python(IMPORT_ALL.replace("sys.argv[1]", repr(json.dumps(["nbgpu.core"])))))
    assert Path(found["nbgpu.core"]) == ROOT / "hub/nbgpu/core/__init__.py"


def test_entry_points_load(installed):
    code = """
from importlib.metadata import entry_points
print(entry_points(group="console_scripts", name="nbgpu")["nbgpu"].load().__name__)
print(entry_points(group="jupyterhub.spawners", name="nbgpu")["nbgpu"].value)
"""
    assert installed.python(code).split() == ["main", "nbgpu.spawner.docker:GPUDockerSpawner"]


def test_wheel_carries_what_is_not_python(regular):
    names = set(zipfile.ZipFile(regular.wheel).namelist())
    expected = [f"nbgpu/{package}/py.typed" for package in PACKAGES]
    expected += ["nbgpu/panel/panel.js", "nbgpu/panel/panel.css", "nbgpu/panel/lab.js"]
    expected += ["nbgpu/machine/proxy/package.json", "nbgpu/machine/proxy/package-lock.json"]
    expected += [
        f"nbgpu/{file.relative_to(ROOT / 'hub/nbgpu')}"
        for pattern in ("*.c", "*.h")
        for file in (ROOT / "hub/nbgpu/nvml/simulator").glob(pattern)
    ]
    assert set(expected) <= names


def test_site_files_are_installed(regular):
    shared = regular.prefix / "share" / "nbgpu"
    expected = ["constraints.txt", "jupyterhub_config.py", "nbgpu.toml"]
    expected += [str(f.relative_to(ROOT)) for f in (ROOT / "images" / "base").rglob("*") if f.is_file()]
    assert [name for name in expected if not (shared / name).is_file()] == []


def test_jupyter_finds_the_panels_extensions(installed):
    code = """
import sys
from pathlib import Path
from jupyter_server.extension.config import ExtensionConfigManager
from jupyterlab_server.config import get_federated_extensions
here = Path(sys.prefix)
enabled = ExtensionConfigManager(read_config_path=[str(here / "etc/jupyter")]).get_jpserver_extensions()
found = get_federated_extensions([str(here / "share/jupyter/labextensions")])
print(enabled["nbgpu.panel.server"], found["@nbgpu/panel"]["jupyterlab"]["_build"]["load"])
"""
    assert installed.python(code).split() == ["True", "static/remoteEntry.js"]


def test_panel_needs_nothing_of_the_hub(regular):
    wheel = zipfile.ZipFile(regular.wheel)
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    requirements = HeaderParser().parsestr(wheel.read(name).decode()).get_all("Requires-Dist") or []
    assert [text for text in requirements if "extra ==" not in text] == []
    panel = [text.split(";")[0].strip() for text in requirements if "extra == 'panel'" in text]
    assert [text for text in panel if text.startswith(("jupyterhub", "sqlalchemy", "docker", "alembic"))] == []
    assert panel
