"""Look after the hub's lock on its database: a PostgreSQL that restarts forgets it without a word."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable

from nbgpu.core.errors import DatabaseTaken, StoreError
from nbgpu.store import HubLock

PERIOD = 60.0  # seconds between two looks

log = logging.getLogger("nbgpu.lock")


async def keep_lock(lock: HubLock, *, period: float = PERIOD, end: Callable[[], None] | None = None) -> None:
    """Take the lock again whenever it was lost, until cancelled; where another hub has it, end this one."""
    while True:
        await asyncio.sleep(period)
        try:
            await asyncio.to_thread(lock.ensure)
        except DatabaseTaken as error:
            sys.stderr.write(f"[C nbgpu] This hub ends: {error}\n")  # as JupyterHub marks what is to be shown
            (end or _end_this_hub)()
            return
        except StoreError as error:
            log.warning("The lock on the database can't be looked at now: %s", error)


def _end_this_hub() -> None:
    """Have JupyterHub end as by Ctrl-C: notebooks go on, and are the other hub's."""
    os.kill(os.getpid(), signal.SIGTERM)
