"""`nbgpu doctor` on a running site."""

import json
import subprocess

import pytest

from e2e.running import COMMAND

pytestmark = pytest.mark.docker


def examine(hub) -> tuple[int, dict[str, dict[str, str]]]:
    """Run the command; return its exit code and the findings by subject."""
    done = subprocess.run(
        [*COMMAND, "doctor", "--json", "--data", str(hub.data), "--config", str(hub.settings)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=hub.data.parent,
        check=False,
    )
    return done.returncode, {finding["subject"]: finding for finding in json.loads(done.stdout)}


def test_a_running_site_is_well_and_an_open_secret_is_not(hub):
    code, findings = examine(hub)
    assert code == 0
    assert {name for name, finding in findings.items() if finding["level"] == "fail"} == set()
    assert findings["hub"]["level"] == findings["network"]["level"] == findings["database"]["level"] == "ok"
    token = hub.data / "demo-admin-token"
    token.chmod(0o644)
    try:
        code, findings = examine(hub)
    finally:
        token.chmod(0o600)
    assert (code, findings["secrets"]["level"]) == (1, "fail")
    assert "chmod 600" in findings["secrets"]["advice"]
