"""The doctor's examination for the service's page: the command's own, in a process beside the service."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from nbgpu.core.findings import Examination, Finding, Level
from nbgpu.wiring.deployment import Deployment

PATIENCE = 180  # seconds


def doctor_command(deployment: Deployment, settings: Path) -> list[str]:
    """Return the command that examines a deployment and prints its findings as JSON."""
    entry = "from nbgpu.cli.main import main; main()"
    place = ["--data", str(deployment.data), "--config", str(settings)]
    return [sys.executable, "-c", entry, "doctor", "--json", *place]


class ServiceDoctor:
    """Examines one at a time; what was found stays until the next is done. Safe to use from many threads."""

    def __init__(self, command: Sequence[str], clock: Callable[[], datetime]) -> None:
        self._command = list(command)
        self._clock = clock
        self._lock = threading.Lock()
        self._latest = Examination()
        self._running: threading.Thread | None = None

    def latest(self) -> Examination:
        """Return what was found last; one is begun where there was none yet."""
        if self._latest.at is None:
            self.begin()
        running = self._running
        return Examination(
            findings=self._latest.findings,
            at=self._latest.at,
            problem=self._latest.problem,
            is_running=running is not None and running.is_alive(),
        )

    def begin(self) -> None:
        """Begin an examination where none is under way."""
        with self._lock:
            if self._running is None or not self._running.is_alive():
                self._running = threading.Thread(target=self._examine, name="nbgpu-doctor", daemon=True)
                self._running.start()

    def _examine(self) -> None:
        findings: tuple[Finding, ...] = ()
        problem = None
        try:
            done = subprocess.run(self._command, capture_output=True, timeout=PATIENCE, check=False)
            findings = tuple(_to_finding(each) for each in json.loads(done.stdout))
        except subprocess.TimeoutExpired:
            problem = f"It took longer than {PATIENCE} s. Run nbgpu doctor on the machine itself."
        except (OSError, ValueError, KeyError, TypeError) as error:
            problem = f"It failed ({type(error).__name__}). Run nbgpu doctor on the machine itself."
        self._latest = Examination(findings=findings, at=self._clock(), problem=problem)


def _to_finding(plain: dict[str, str]) -> Finding:
    return Finding(Level(plain["level"]), plain["found"], plain["advice"], plain["subject"])
