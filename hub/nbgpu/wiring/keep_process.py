"""Processes that run beside the hub: a task in its loop starts them, and again within seconds when they die."""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0  # seconds before it is started again
END_SECONDS = 3.0  # for it to write what it has; the hub's end waits for it
WELL = 60.0  # seconds after which it counts as having been well

log = logging.getLogger("nbgpu.service")


def module_command(module: str) -> list[str]:
    """Return the command of one of our modules, which is told the process that it is to end with."""
    return [sys.executable, "-m", module, str(os.getpid())]


async def keep_process(name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a process until cancelled; one that dies is started again, after a pause that grows if it dies soon."""
    loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
    while True:
        began = loop.time()
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **environment})
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise
        pause = FIRST_PAUSE if loop.time() - began > WELL else min(pause * 2, LONGEST_PAUSE)
        log.error("The %s ended with status %s; it is started again", name, status)
        await asyncio.sleep(pause)


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
