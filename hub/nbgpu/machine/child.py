"""Start a program that dies with the one that started it: `python -m nbgpu.machine.child SIGNAL PARENT COMMAND…`.

`nbgpu run` starts the hub and its proxy so. Killed with SIGKILL it can end nothing itself; the kernel then sends
SIGNAL. The setting outlives exec, so the program keeps this process's id. PARENT is the starter's pid, or 0 to take
whoever that is.
"""

import ctypes
import os
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def bound_command(command: Sequence[str], *, signal_number: int, parent: int = 0) -> list[str]:
    """Return the command line that runs `command` bound to its starter's life."""
    return [sys.executable, "-m", "nbgpu.machine.child", str(int(signal_number)), str(parent), *command]


def main(arguments: Sequence[str]) -> None:
    """Bind this process to its parent and become the command."""
    signal_number, parent, *command = arguments
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal_number))
    if int(parent) and os.getppid() != int(parent):
        raise SystemExit(1)  # it died before the kernel knew to tell us
    os.execvp(command[0], command)  # noqa: S606  # replacing this process is the purpose


if __name__ == "__main__":
    main(sys.argv[1:])
