"""Calls to Docker with our reading of its answers: "no such container" is known, everything else unknown is not.

All of them block, for at most the client's own time limit a call.
"""

import logging
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import requests
from docker.errors import APIError, DockerException

from nbgpu.core.errors import EngineError, EngineUnavailable

log = logging.getLogger("nbgpu.docker")

_GONE_TRIES = 50  # of 0.1 s: how long a removal by somebody else may take
_HOST_PATH = re.compile(r"(?<![\w.:/])(?:/[\w.@+%-]+){2,}/?")
_DEVICE_GONE = "A device that this server was to have is gone from the machine. Start again to get another one."
_PLAIN_WORDS = {
    "could not select device driver": "Docker can't hand out GPUs: NVIDIA's container toolkit is not installed. "
    "Install nvidia-container-toolkit and restart Docker.",
    # A device that vanished between its lease and its start: of the toolkit, and of the simulated driver's folders.
    "unknown device": _DEVICE_GONE,
    "bind source path does not exist": _DEVICE_GONE,
    "driver/library version mismatch": "The NVIDIA driver was updated while it was in use. Restart this machine.",
}


class LateClient:
    """A client that is made when it is first used: making one asks the engine, which may not answer yet."""

    def __init__(self, make: Callable[[], Any]) -> None:
        """Take what returns the client, the same one each time; it may raise."""
        self._make = make

    def __getattr__(self, name: str) -> Any:
        return getattr(self._make(), name)


def call(client: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """Make one call. Raises APIError for Docker's own answer, EngineUnavailable when there is none."""
    try:
        return getattr(client, method)(*args, **kwargs)
    except APIError:
        raise
    except (DockerException, requests.RequestException, OSError) as error:
        raise EngineUnavailable(f"Docker does not answer ({method}): {error}") from error


def inspect(client: Any, name_or_id: str) -> dict[str, Any] | None:
    """Return what Docker knows of a container, None when it says there is none. Raises EngineUnavailable."""
    try:
        found: dict[str, Any] = call(client, "inspect_container", name_or_id)
    except APIError as error:
        if is_missing(error):
            return None
        raise EngineUnavailable(f"Docker can't say whether {name_or_id} runs: {error.explanation}") from error
    return found


def end(client: Any, container_id: str, *, grace: int = 0) -> datetime | None:
    """End a container, remove it and see it gone; return when it ended, None where it never ran or nobody knows.

    Its program has `grace` seconds to end by itself. Idempotent. Raises EngineError.
    """
    _stop(client, container_id, grace)
    found = inspect(client, container_id)  # before the removal: with the container its times are gone
    _remove(client, container_id)
    if found is None:
        return None
    return datetime.now(UTC) if found["State"]["Running"] else finished_at(found["State"])


def finished_at(state: dict[str, Any]) -> datetime | None:
    """Return when a container ended, from its inspected state; None for one that runs or never ran."""
    text = state.get("FinishedAt") or ""
    if state["Running"] or not text or text.startswith("0001"):  # Docker's zero time
        return None
    return datetime.fromisoformat(text)


def _stop(client: Any, container_id: str, grace: int) -> None:
    """See the program ended; where that fails, the removal by force that follows still can."""
    try:
        call(client, "stop", container_id, timeout=grace)
    except (APIError, EngineUnavailable) as error:
        if not is_missing(error):
            log.warning("Docker did not stop %s, it is removed by force: %s", container_id[:12], error)


def is_missing(error: Exception) -> bool:
    """Whether this is Docker's answer that there is no such thing."""
    return isinstance(error, APIError) and error.status_code == requests.codes.not_found


def _remove(client: Any, container_id: str) -> None:
    try:
        call(client, "remove_container", container_id, force=True, v=True)
    except APIError as error:
        if error.status_code not in (requests.codes.not_found, requests.codes.conflict):
            raise to_engine_error(error) from error
    for _ in range(_GONE_TRIES):
        if inspect(client, container_id) is None:
            return
        time.sleep(0.1)  # somebody else's removal is under way
    raise EngineError(f"Docker did not remove the container {container_id[:12]}; try again in a minute.")


def to_engine_error(error: APIError) -> EngineError:
    """Return Docker's refusal in plain words where we know them; people see no paths of the host, the log does."""
    text = str(error.explanation or error)
    log.warning("Docker refused: %s", text[:1000])
    for part, plain in _PLAIN_WORDS.items():
        if part in text:
            return EngineError(plain)
    return EngineError(f"Docker refused: {_HOST_PATH.sub('(a path of the host)', text)[:300]}")
