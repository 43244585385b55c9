"""Chromium for the tests: the machine's, Debian's package, or Playwright's own where there is no such package."""

import sys

from nbgpu.core.errors import SetupError
from nbgpu.machine.host import CommandFailed, Host
from nbgpu.machine.packages import CHROMIUM, blockers, ensure_tools, has_candidate
from nbgpu.machine.report import Detail

__all__ = ["blockers_for_browser", "ensure_browser"]


def blockers_for_browser(host: Host) -> list[str]:
    """Return what a person must install first."""
    return blockers(host, [CHROMIUM])


def ensure_browser(host: Host, report: Detail) -> str:
    """Bring a Chromium that runs without a desktop.

    Ubuntu has it only as a snap, which does not start in containers: there Playwright brings its own.
    """
    if CHROMIUM.is_there(host) or has_candidate(host, "chromium"):
        return ensure_tools(host, [CHROMIUM], report)
    try:
        host.run([sys.executable, "-m", "playwright", "install", "--with-deps", "chromium"], report=report)
    except CommandFailed as error:
        raise SetupError(f"No Chromium for the tests: install chromium or google-chrome. {error}") from error
    return "Playwright's Chromium"
