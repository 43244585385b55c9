"""A Docker engine: the one that answers, or one that the set-up installs and starts."""

import getpass
import os
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.errors import DockerException
from requests.exceptions import RequestException

from nbgpu.core.errors import SetupError
from nbgpu.machine import packages
from nbgpu.machine.dockerd import DaemonPlan, start_dockerd
from nbgpu.machine.host import Host
from nbgpu.machine.report import Detail

ANSWER_SECONDS = 10
LOCAL_SOCKET = "unix:///var/run/docker.sock"


@dataclass(frozen=True, slots=True)
class Answer:
    """What asking the engine gave: its version, or why there was none."""

    version: str | None
    problem: str = ""
    forbidden: bool = False


def ask_engine(environ: Mapping[str, str]) -> Answer:
    """Ask the engine that `DOCKER_HOST` names, else the local socket, for its version."""
    settings = docker.utils.kwargs_from_env(environment=dict(environ))
    address = settings.get("base_url") or LOCAL_SOCKET
    if address.startswith(("unix://", "http+unix://")):
        # Asked first: the client would say less clearly why, and leave its socket open.
        problem = _socket_problem(address.partition("://")[2])
        if problem is not None:
            return Answer(None, str(problem), forbidden=isinstance(problem, PermissionError))
    try:
        # With a version given, making the client asks nothing; any engine answers the unversioned call.
        client = docker.APIClient(**settings, version=DEFAULT_DOCKER_API_VERSION, timeout=ANSWER_SECONDS)
        with closing(client):
            return Answer(str(client.version(api_version=False)["Version"]))
    except (DockerException, RequestException) as error:
        return Answer(None, str(error))


def _socket_problem(path: str) -> OSError | None:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(ANSWER_SECONDS)
        try:
            probe.connect(path)
        except OSError as error:
            return error
    return None


Ask = Callable[[Mapping[str, str]], Answer]


def blockers(host: Host, ask: Ask = ask_engine) -> list[str]:
    """Return why no engine can be had, a sentence for each thing to do; nothing when one answers or can be made."""
    answer = ask(host.environ)
    if answer.version is not None:
        return []
    if elsewhere := host.environ.get("DOCKER_HOST"):
        return [f"Docker engine: DOCKER_HOST is {elsewhere}, and nothing answers there ({answer.problem})"]
    if answer.forbidden:
        return [
            "Docker engine: it runs, but you may not use it. Run `sudo usermod -aG docker $USER`, log in again, "
            "and run this once more"
        ]
    problems = packages.blockers(host, [packages.DOCKER_ENGINE])
    if not problems and host.root_prefix() is None:
        problems = ["Docker engine: installed, but not running. As root: systemctl start docker"]
    return problems


def ensure_engine(host: Host, report: Detail, *, ask: Ask = ask_engine) -> str:
    """Use the engine that answers, untouched; else install and start one. SetupError says what to do."""
    answer = ask(host.environ)
    if answer.version is not None:
        return f"version {answer.version} answers"
    problems = blockers(host, ask)
    if problems:
        raise SetupError("; ".join(problems))
    packages.ensure_tools(host, [packages.DOCKER_ENGINE], report)
    answer = ask(host.environ)  # installing the package may have started the service
    if answer.version is None and not answer.forbidden:
        _start(host, report, ask)
        answer = ask(host.environ)
    if answer.forbidden:
        _let_in(host, report)
        answer = ask(host.environ)
    if answer.version is None:
        raise SetupError(blockers(host, ask)[0])
    return f"version {answer.version} started"


def _let_in(host: Host, report: Detail) -> None:
    """Let this account use the engine that it has just installed with sudo: by group later, by owner now."""
    user = getpass.getuser()
    report(f"letting {user} use the engine")
    as_root = host.root_prefix() or ()
    host.run([*as_root, "usermod", "--append", "--groups", "docker", user], report=report)
    host.run([*as_root, "chown", user, LOCAL_SOCKET.removeprefix("unix://")], report=report)


def _start(host: Host, report: Detail, ask: Ask) -> None:
    as_root = host.root_prefix() or ()
    if host.has_systemd() and host.succeeds(*as_root, "systemctl", "start", "docker"):
        return
    start_dockerd(_plan(as_root, host), lambda: ask(host.environ).version is not None, report)


def _plan(as_root: tuple[str, ...], host: Host) -> DaemonPlan:
    environ = {**host.environ, "PATH": f"{host.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}
    if not as_root:
        return DaemonPlan(environ=environ)
    log = Path(tempfile.gettempdir()) / f"nbgpu-dockerd-{os.getuid()}.log"
    # Through sudo the socket would be root's: this group may use it, so that no new login is needed.
    return DaemonPlan(log=log, as_root=as_root, arguments=("--group", str(os.getgid())), environ=environ)
