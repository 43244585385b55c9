"""One build of each kind and one fresh environment for each, shared by the session."""

import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import build
import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Installed:
    """A fresh virtual environment with nbgpu in it, and the wheel that it came from."""

    prefix: Path
    wheel: Path

    def python(self, code: str) -> str:
        """Return what a program prints there, run from a folder that is no checkout."""
        command = [self.prefix / "bin" / "python", "-c", code]
        done = subprocess.run(command, cwd=self.prefix, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


def _install(wheel: Path, prefix: Path) -> Installed:
    venv.create(prefix, symlinks=True)
    python = prefix / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    site = next((prefix / "lib").glob("python*/site-packages"))
    # The dependencies of this environment, without its own editable nbgpu: .pth files there are not followed.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(prefix, wheel)


Make = Callable[[str], Installed]


@pytest.fixture(scope="session")
def make_installed(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Return a function that builds a "wheel" or "editable" and installs it in a fresh environment."""

    def make(kind: str) -> Installed:
        folder = tmp_path_factory.mktemp(kind)
        builder = build.ProjectBuilder(ROOT, runner=_quiet)
        return _install(Path(builder.build(kind, folder / "dist")), folder / "venv")  # type: ignore[arg-type]

    return make


def _quiet(command: object, cwd: str | None = None, extra_environ: object = None) -> None:
    from pyproject_hooks import quiet_subprocess_runner

    quiet_subprocess_runner(command, cwd, extra_environ)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def regular(make_installed: Make) -> Installed:
    """A regular install."""
    return make_installed("wheel")


@pytest.fixture(scope="session")
def editable(make_installed: Make) -> Installed:
    """An editable install of this checkout."""
    return make_installed("editable")


@pytest.fixture(params=["regular", "editable"])
def installed(request: pytest.FixtureRequest) -> Installed:
    """Each kind of install in turn."""
    found: Installed = request.getfixturevalue(request.param)
    return found
