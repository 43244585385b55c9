"""A Debian root file system made from Debian's packages, for sites that reach a mirror but no image registry."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from nbgpu.core.errors import ImageError, SetupError
from nbgpu.images.lock import Report

_APT = ("apt-get", "-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300")
_NEEDLESS = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")
_SOURCE = re.compile(r"^deb\s+(?:\[[^]]*\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+main\b", re.MULTILINE)


@contextmanager
def root_file_system(suite: str, report: Report) -> Iterator[IO[bytes]]:
    """Make a Debian of a suite ("bookworm") and give it as a tar stream. SetupError, ImageError."""
    _ensure_debootstrap(report)
    with tempfile.TemporaryDirectory(prefix="nbgpu-debian-") as folder:
        root = Path(folder, "root")
        mirror, security = machine_mirrors()
        _run_debootstrap(suite, root, mirror, report)
        _slim(root)
        _write_sources(root, suite, mirror, security)
        with _tar(root) as stream:
            yield stream


def machine_mirrors(etc: Path = Path("/etc")) -> tuple[str | None, str | None]:
    """Return the mirrors (Debian's, its security updates') that a Debian machine's own apt uses; None if unknown."""
    release = etc / "os-release"
    if not release.exists() or not re.search(r"^ID=debian$", release.read_text(), re.MULTILINE):
        return None, None
    found = list(_apt_sources(etc / "apt"))
    main = next((uri for uri, suite in found if re.fullmatch(r"[a-z]+", suite)), None)
    security = next((uri for uri, suite in found if suite.endswith("-security")), None)
    return main, security


def _apt_sources(apt: Path) -> Iterator[tuple[str, str]]:
    for file in sorted(apt.glob("sources.list.d/*.sources")):
        for stanza in re.split(r"\n\s*\n", file.read_text()):
            fields = dict(re.findall(r"^([A-Za-z-]+):\s*(.+)$", stanza, re.MULTILINE))
            if "main" in fields.get("Components", "").split() and "debian" in fields.get("URIs", ""):
                yield from ((fields["URIs"].split()[0], suite) for suite in fields.get("Suites", "").split())
    for file in (apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))):
        if file.exists():
            yield from ((m["uri"], m["suite"]) for m in _SOURCE.finditer(file.read_text()) if "debian" in m["uri"])


def _ensure_debootstrap(report: Report) -> None:
    if os.geteuid() != 0:
        raise SetupError("Bootstrapping Debian needs root: run this with sudo once, or where a registry answers.")
    if shutil.which("debootstrap"):
        return
    if not shutil.which("apt-get"):
        raise SetupError("Bootstrapping Debian needs the command debootstrap: install the package debootstrap.")
    report("Installing the package debootstrap")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*_APT, "update"], env=environ, capture_output=True, check=False, timeout=600)
    done = subprocess.run(
        [*_APT, "install", "debootstrap"], env=environ, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        raise SetupError(f"apt-get could not install the package debootstrap: {' '.join(done.stderr.split())[-300:]}")


def _run_debootstrap(suite: str, root: Path, mirror: str | None, report: Report) -> None:
    # In a mount namespace of its own: what it mounts inside is gone when it ends, however it ends.
    command = ["unshare", "--mount", "--fork", "--kill-child", "--"]
    command += ["debootstrap", "--variant=minbase", suite, str(root), *([mirror] if mirror else [])]
    tail: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            for line in process.stdout or ():
                tail = [*tail[-4:], line.strip()]
                report(f"  {line.strip()}")
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise ImageError(f"debootstrap failed for {suite}: {' | '.join(tail)}")


def _slim(root: Path) -> None:
    """Drop manuals and translations, and tell dpkg to leave them out later too, as the slim images do."""
    for folder in (*_NEEDLESS, "var/lib/apt/lists", "var/cache/apt/archives"):
        shutil.rmtree(root / folder, ignore_errors=True)
        (root / folder).mkdir(parents=True, exist_ok=True)
    rules = "".join(f"path-exclude=/{folder}/*\n" for folder in _NEEDLESS)
    (root / "etc/dpkg/dpkg.cfg.d/nbgpu-slim").write_text(rules)


def _write_sources(root: Path, suite: str, mirror: str | None, security: str | None) -> None:
    file = root / "etc/apt/sources.list"
    if mirror is None:  # debootstrap's default mirror is in there
        mirror = next((m["uri"] for m in _SOURCE.finditer(file.read_text())), None)
    lines = [f"deb {mirror} {suite} main", f"deb {mirror} {suite}-updates main"] if mirror else []
    lines += [f"deb {security} {suite}-security main"] if security else []
    file.write_text("\n".join(lines) + "\n")


@contextmanager
def _tar(root: Path) -> Iterator[IO[bytes]]:
    command = ["tar", "--create", "--numeric-owner", "--directory", str(root), "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        if process.stdout is None:
            raise ImageError("tar gave no output.")
        try:
            yield process.stdout
        finally:
            process.kill()
