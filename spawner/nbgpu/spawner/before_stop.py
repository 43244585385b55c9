"""What a server may still do before it is stopped: the image's own script runs that of its user, for a bounded time.

It never keeps a server from being stopped, nor for longer than its time: what hangs or fails is told in its log in the
home folder, and ours. Images without the script do nothing.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from docker.errors import APIError

from nbgpu.core.errors import EngineUnavailable

SCRIPT = "/usr/local/lib/nbgpu/before-stop"
MARGIN = 4.0  # seconds beyond its own time: the script kills what does not end, two seconds later
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between two questions whether it has ended
_IF_THERE = '[ ! -r "$0" ] || exec /bin/sh "$0" "$@"'

log = logging.getLogger("nbgpu.stops")

Call = Callable[..., Awaitable[Any]]  # of a method of `docker.APIClient`, by its name


async def run_in_container(call: Call, container_id: str, seconds: float, *, name: str) -> None:
    """Run the image's script in a container, as the container's user; `name` is for the log."""
    try:
        async with asyncio.timeout(seconds + MARGIN):
            code = await _run(call, container_id, seconds)
    except TimeoutError:
        log.warning("What runs before the stop of %s took longer than %g s; it is stopped now", name, seconds)
    except (APIError, EngineUnavailable) as error:
        log.info("Nothing could be run before the stop of %s: %s", name, error)
    else:
        _tell(name, code)


async def run_locally(script: Path, environment: Mapping[str, str], seconds: float, *, name: str) -> None:
    """Run the script beside a server that is a process, with the variables that it has; its folder is its HOME."""
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            str(script),
            str(math.ceil(seconds)),
            env=dict(environment),
            cwd=environment["HOME"],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, KeyError) as error:
        log.info("Nothing could be run before the stop of %s: %r", name, error)
        return
    try:
        _tell(name, await asyncio.wait_for(process.wait(), seconds + MARGIN))
    except TimeoutError:
        log.warning("What runs before the stop of %s took longer than %g s; it is stopped now", name, seconds)
        with suppress(ProcessLookupError):
            process.kill()  # what it began is of the session, and ends with it
        await process.wait()


async def _run(call: Call, container_id: str, seconds: float) -> int | None:
    """Return the script's exit code. No thread waits for it: those are for all users together."""
    command = ["/bin/sh", "-c", _IF_THERE, SCRIPT, str(math.ceil(seconds))]
    made = await call("exec_create", container_id, command, stdout=False, stderr=False)
    await call("exec_start", made["Id"], detach=True)
    pause = _FIRST_PAUSE
    while (found := await call("exec_inspect", made["Id"]))["Running"]:
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
    code: int | None = found["ExitCode"]
    return code


def _tell(name: str, code: int | None) -> None:
    if code:
        log.warning(
            "What ran before the stop of %s ended with exit code %s; its log is ~/.nbgpu/before-stop.log", name, code
        )
