"""Who gives a command, for the ledger and the audit log."""

import getpass
import os


def find_author() -> str:
    """Return the name of the account, or its number where it has no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
