"""Debian packages that bring missing commands. A machine that has the commands is left alone, whatever it runs."""

from collections.abc import Iterable
from dataclasses import dataclass

from nbgpu.core.errors import SetupError
from nbgpu.machine.host import CommandFailed, Host
from nbgpu.machine.report import Detail

APT = (
    "env",
    "DEBIAN_FRONTEND=noninteractive",
    "apt-get",
    "-o",
    "DPkg::Lock::Timeout=300",
    "-o",
    "Acquire::Retries=3",  # mirrors drop connections
)


@dataclass(frozen=True, slots=True)
class Tool:
    """Something we need: there when one of `commands` is; otherwise `packages` bring it."""

    purpose: str  # "compiles the simulated driver"
    commands: tuple[str, ...]  # any one will do
    packages: tuple[str, ...]
    split_packages: tuple[str, ...] = ()  # installed too where the distribution has them apart

    def is_there(self, host: Host) -> bool:
        """Whether one of the commands is on the machine."""
        return any(host.which(command) for command in self.commands)


DEBOOTSTRAP = Tool("builds the base image without a registry", ("debootstrap",), ("debootstrap",))
COMPILER = Tool("compiles the simulated driver", ("gcc", "cc"), ("gcc", "libc6-dev"))
DOCKER_ENGINE = Tool(
    "runs the notebooks",
    ("dockerd",),
    ("docker.io", "iptables", "ca-certificates"),
    ("docker-cli",),
)
CHROMIUM = Tool(
    "is the browser of the tests",
    ("chromium", "google-chrome", "google-chrome-stable"),
    ("chromium", "fonts-dejavu-core", "fonts-noto-color-emoji"),
)


def blockers(host: Host, tools: Iterable[Tool]) -> list[str]:
    """Return a sentence for each tool that is missing and can't be installed from here."""
    lacking = [tool for tool in tools if not tool.is_there(host)]
    if not lacking or (host.has_apt() and host.root_prefix() is not None):
        return []
    how = "as root: apt-get install" if host.has_apt() else "with your package manager; Debian's names:"
    return [f"{tool.commands[0]} ({tool.purpose}): {how} {' '.join(tool.packages)}" for tool in lacking]


def ensure_tools(host: Host, tools: Iterable[Tool], report: Detail) -> str:
    """Install what brings the missing tools. SetupError with all of apt's last lines when that fails."""
    tools = tuple(tools)
    lacking = [tool for tool in tools if not tool.is_there(host)]
    if not lacking:
        return "there"
    problems = blockers(host, lacking)
    if problems:
        raise SetupError(f"Missing: {'; '.join(problems)}")
    packages = sorted({package for tool in lacking for package in tool.packages})
    _install(host, packages, [package for tool in lacking for package in tool.split_packages], report)
    still = [tool.commands[0] for tool in lacking if not tool.is_there(host)]
    if still:
        raise SetupError(f"apt-get installed {' '.join(packages)}, but brought no command {' '.join(still)}")
    return f"installed {' '.join(packages)}"


def _install(host: Host, packages: list[str], wanted: list[str], report: Detail) -> None:
    as_root = host.root_prefix() or ()
    report(f"apt-get install {' '.join(packages)}")
    _finish_interrupted(host, as_root, report)
    try:
        host.run((*as_root, *APT, "update"), report=report)
    except CommandFailed as error:  # one dead source of several; the install tells whether it matters
        report(str(error))
    known = [package for package in dict.fromkeys(wanted) if has_candidate(host, package)]
    try:
        command = (*as_root, *APT, "install", "--yes", "--no-install-recommends", *packages, *known)
        host.run(command, report=report)
    except CommandFailed as error:
        raise SetupError(f"The packages {' '.join(packages)} could not be installed. {error}") from error


def _finish_interrupted(host: Host, as_root: tuple[str, ...], report: Detail) -> None:
    """Let dpkg finish what an earlier, interrupted run unpacked; apt refuses to work before that."""
    if host.output("dpkg", "--audit"):
        command = (*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--configure", "-a")
        host.run(command, report=report)


def has_candidate(host: Host, package: str) -> bool:
    """Whether this release has the package at all: Debian 13 split Docker's client from its engine."""
    policy = host.output("apt-cache", "policy", package)
    return "Candidate:" in policy and "Candidate: (none)" not in policy
