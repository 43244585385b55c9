"""What is committed: names no registry's host and no machine of ours."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOSTS = (
    ("pypi", "org"),
    ("files", "pythonhosted", "org"),
    ("registry", "npmjs", "org"),
    ("registry", "yarnpkg", "com"),
    ("deb", "debian", "org"),
    ("archive", "ubuntu", "com"),
)
# Built from parts: this file must not name them either.
FORBIDDEN = re.compile(
    "|".join([*(re.escape(".".join(parts)) for parts in HOSTS), "/opt/" + "wheels", "/work/" + "main"])
)


def _committed() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: nothing tells what is committed")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]


def test_no_committed_file_names_a_registry_or_a_workplace():
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in _committed()
        if (match := FORBIDDEN.search(path.read_text(encoding="utf-8", errors="replace")))
    ]
    assert found == []


def test_constraints_are_exact():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[^\s;]+( ; .+)?", line)] == []
