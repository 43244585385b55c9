"""The import contracts hold, and each of them catches what it is for: a violation is planted in a copy."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ("hub", "spawner", "images", "extensions")


def _lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts over the tree in `folder`, not over the installed one."""
    path = os.pathsep.join(str(folder / root) for root in SOURCE_ROOTS)
    code = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache", "--config", "pyproject.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path):
    """A copy of the source tree that may be spoiled."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for root in SOURCE_ROOTS:
        shutil.copytree(ROOT / root / "nbgpu", tmp_path / root / "nbgpu", ignore=shutil.ignore_patterns("*.pyc"))
    return tmp_path


def test_contracts_hold(copy):
    done = _lint_imports(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("hub/nbgpu/core/devices.py", "import nbgpu.store", "imports point inward"),
        ("hub/nbgpu/store/leases.py", "import nbgpu.nvml", "imports point inward"),
        ("hub/nbgpu/wiring/deployment.py", "import nbgpu.cli", "imports point inward"),
        ("hub/nbgpu/core/devices.py", "import sqlalchemy", "the domain is pure"),
        ("hub/nbgpu/core/devices.py", "import time", "the domain is pure"),
        ("hub/nbgpu/cli/main.py", "import pynvml", "only nvml asks the driver"),
        ("extensions/nbgpu/panel/__init__.py", "import nbgpu.spawner", "the notebook panel knows nvml"),
    ],
)
def test_contract_catches(copy, file, line, contract):
    with (copy / file).open("a") as source:
        source.write(f"\n{line}\n")
    done = _lint_imports(copy)
    assert done.returncode == 1
    broken = [text for text in done.stdout.splitlines() if text.endswith("BROKEN")]
    assert any(text.startswith(contract) for text in broken), done.stdout


def test_every_source_root_has_its_types_checked():
    """`packages = ["nbgpu"]` would check the first root alone: the namespace has several."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert tool["mypy"]["files"] == [f"{root}/nbgpu" for root in SOURCE_ROOTS]
    assert "packages" not in tool["mypy"]


def test_contracts_cover_every_package():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    found = {
        f"nbgpu.{init.parent.name}" for root in SOURCE_ROOTS for init in (ROOT / root / "nbgpu").glob("*/__init__.py")
    }
    contracts = {contract["name"]: contract for contract in config["contracts"]}
    assert set(config["root_packages"]) == found
    assert set(contracts["only nvml asks the driver"]["source_modules"]) == found - {"nbgpu.nvml"}
    panel = contracts["the notebook panel knows nvml and nothing else of ours"]
    assert set(panel["forbidden_modules"]) == found - {"nbgpu.nvml", "nbgpu.core", "nbgpu.panel"}
    layers = re.findall(r"nbgpu\.\w+", " ".join(contracts["imports point inward"]["layers"]))
    assert set(layers) >= found - {"nbgpu.panel"}
