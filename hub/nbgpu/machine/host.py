"""The seam between the set-up and the machine: which programs there are, running them, and being root.

Tests put a fake here; no other module of this package starts a set-up program.
"""

import os
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbgpu.core.errors import SetupError

KEPT_LINES = 15


class CommandFailed(SetupError):
    """A program of the set-up failed; the text has the command, its status and its last lines."""


@dataclass
class Host:
    """This machine. `environ` is what the programs get beside the command's own additions."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def which(self, name: str) -> str | None:
        """Return the path of a program; system folders count even where a user's PATH leaves them out."""
        path = self.environ.get("PATH", os.defpath)
        return shutil.which(name, path=f"{path}{os.pathsep}/usr/local/sbin{os.pathsep}/usr/sbin{os.pathsep}/sbin")

    def is_root(self) -> bool:
        """Whether this process is root."""
        return os.geteuid() == 0

    def root_prefix(self) -> tuple[str, ...] | None:
        """Return what to put before a command to run it as root: nothing, sudo, or None where we may not."""
        if self.is_root():
            return ()
        if self.which("sudo") and self.succeeds("sudo", "-n", "true"):
            return ("sudo", "-n")
        return None

    def has_apt(self) -> bool:
        """Whether this is Debian, Ubuntu or a relative."""
        return self.which("apt-get") is not None and Path("/etc/debian_version").exists()

    def has_systemd(self) -> bool:
        """Whether systemd looks after this machine's services (in a container it usually does not)."""
        return Path("/run/systemd/system").is_dir() and self.which("systemctl") is not None

    def succeeds(self, *command: str) -> bool:
        """Whether a quick program ends with status 0 within 20 s."""
        try:
            done = subprocess.run(command, env=self.environ, capture_output=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    def output(self, *command: str) -> str:
        """Return what a quick program prints, or "" where it fails."""
        try:
            return subprocess.run(
                command, env=self.environ, capture_output=True, text=True, timeout=20, check=True
            ).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return ""

    def run(
        self,
        command: Sequence[str],
        *,
        report: Callable[[str], None],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Run a program to its end, each line of it to `report`. CommandFailed when its status is not 0."""
        tail: deque[str] = deque(maxlen=KEPT_LINES)
        try:
            process = subprocess.Popen(
                command,
                env={**self.environ, **(env or {})},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise CommandFailed(f"{command[0]} can't be started: {error}") from error
        with process:
            for line in process.stdout or ():
                if line.strip():
                    tail.append(line.rstrip())
                    report(tail[-1])
        if process.returncode:
            lines = "\n".join(f"    {line}" for line in tail)
            raise CommandFailed(f"`{' '.join(command)}` ended with status {process.returncode}:\n{lines}")
