"""Databases of older schemas, and processes that are killed."""

import subprocess
import sys
from pathlib import Path

from alembic import command

from nbgpu.store.database import connect_database
from nbgpu.store.revision import script_config

# Each URL is opened by a process that is killed after so many statements; prints how each ended.
KILL_AFTER_STATEMENTS = """
import os, sys
from sqlalchemy import Engine, event
from nbgpu.store import open_database
for number, url in enumerate(sys.argv[1:], start=1):
    if (child := os.fork()) == 0:
        left = number
        @event.listens_for(Engine, "after_cursor_execute")
        def count(*_):
            global left
            left -= 1
            if not left:
                os.kill(os.getpid(), 9)
        open_database(url)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def make_old(url: str, revision: str) -> None:
    """Make a database of an older schema."""
    engine = connect_database(url)
    with engine.begin() as connection:
        config = script_config()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


def run_code(code: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )
