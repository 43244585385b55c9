"""The Debian that images stand on: from a registry where one answers, else bootstrapped from Debian's packages.

Air-gapped sites have a mirror of Debian's packages and no image registry; the result is the same kind of image.
"""

import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from docker import DockerClient
from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException

from nbgpu.core.errors import EngineError, ImageError, SetupError

Report = Callable[[str], None]  # takes a line; one that starts with two spaces is a detail of the step before it

PROBE_SECONDS = 10.0
ORIGIN_LABEL = "org.nbgpu.origin"
_APT = ("apt-get", "-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300")
_NEEDLESS = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")
_SOURCE = re.compile(r"^deb\s+(?:\[[^]]*\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+main\b", re.MULTILINE)


def ensure_debian(client: DockerClient, name: str, report: Report, *, refresh: bool = False) -> str:
    """Return the id of the local image of a Debian ("debian:bookworm-slim"); fetch or make it when it is missing."""
    suite = name.partition(":")[2].removesuffix("-slim")
    local = f"nbgpu/debian:{suite}"
    if not refresh:
        try:
            return str(client.images.get(local).id)
        except ImageNotFound:
            pass
    problem = probe_registry(client, name)
    if problem is None:
        report(f"Fetching {name} from its registry")
        _pull(client, name, report)
        client.images.get(name).tag(local)
    else:
        report(f"No registry gives {name} ({problem}): bootstrapping it from Debian's packages")
        bootstrap(client, suite, local, report)
    return str(client.images.get(local).id)


def probe_registry(client: DockerClient, name: str, *, seconds: float = PROBE_SECONDS) -> str | None:
    """Return why the engine can't have an image from its registry, within `seconds`; None if it can."""
    answers: list[str | None] = []

    def ask() -> None:
        try:
            client.api.inspect_distribution(name)
            answers.append(None)
        except (DockerException, RequestException) as error:
            answers.append(_brief(str(error)))

    thread = threading.Thread(target=ask, name="registry-probe", daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else f"no answer in {seconds:g} s"


def bootstrap(client: DockerClient, suite: str, local: str, report: Report) -> None:
    """Make a root file system with debootstrap and import it under the name `local`. SetupError, ImageError."""
    _ensure_debootstrap(report)
    with tempfile.TemporaryDirectory(prefix="nbgpu-debian-") as folder:
        root = Path(folder, "root")
        mirror, security = machine_mirrors()
        _run_debootstrap(suite, root, mirror, report)
        _slim(root)
        _write_sources(root, suite, mirror, security)
        report("Importing the root file system into the engine")
        with _tar(root) as stream:
            _import(client, stream, local, suite)


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
        raise SetupError(f"apt-get could not install the package debootstrap: {_brief(done.stderr)}")


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


def _import(client: DockerClient, stream: IO[bytes], local: str, suite: str) -> None:
    repository, _, tag = local.partition(":")
    changes = [f"LABEL {ORIGIN_LABEL}=debootstrap/{suite}"]
    try:
        client.api.import_image_from_data(stream, repository=repository, tag=tag, changes=changes)
    except (DockerException, RequestException) as error:
        raise EngineError(f"Docker could not import the root file system: {_brief(str(error))}") from error


def _pull(client: DockerClient, name: str, report: Report) -> None:
    repository, _, tag = name.partition(":")
    try:
        events: Iterator[dict[str, Any]] = client.api.pull(repository, tag=tag, stream=True, decode=True)
        for event in events:
            if "error" in event:
                raise ImageError(f"{name} could not be fetched: {event['error']}")
            report(f"  {event.get('id', '')} {event.get('status', '')} {event.get('progress', '')}".rstrip())
    except (DockerException, RequestException) as error:
        raise ImageError(f"{name} could not be fetched: {_brief(str(error))}") from error


def _brief(text: str) -> str:
    """Return the last, most telling part of an error's text, on one line."""
    inner = re.search(r'\("(.*)"\)$', text.strip(), re.DOTALL)
    return " ".join((inner[1] if inner else text).split())[-300:]
