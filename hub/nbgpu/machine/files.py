"""Where the files beside the packages are: a checkout's own win over those that the wheel installed."""

import sys
from pathlib import Path

SHARED = Path("share") / "nbgpu"


def find_site_file(name: str) -> Path | None:
    """Return a file such as "nbgpu.toml": of the checkout this package runs from, else the installed one."""
    checkout = Path(__file__).resolve().parents[3]
    folders = [checkout] if (checkout / "pyproject.toml").is_file() else []
    folders.append(Path(sys.prefix) / SHARED)
    return next((folder / name for folder in folders if (folder / name).is_file()), None)
