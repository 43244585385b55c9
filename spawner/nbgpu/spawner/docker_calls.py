"""Calls to Docker with our reading of its answers: "no such container" is known, everything else unknown is not.

All of them block, for at most the client's own time limit a call.
"""

import time
from collections.abc import Callable
from typing import Any

import requests
from docker.errors import APIError, DockerException

from nbgpu.core.errors import EngineError, EngineUnavailable

_GONE_TRIES = 50  # of 0.1 s: how long a removal by somebody else may take
_PLAIN_WORDS = {
    "could not select device driver": "Docker can't hand out GPUs: NVIDIA's container toolkit is not installed. "
    "Install nvidia-container-toolkit and restart Docker.",
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
        if error.status_code == requests.codes.not_found:
            return None
        raise EngineUnavailable(f"Docker can't say whether {name_or_id} runs: {error.explanation}") from error
    return found


def remove(client: Any, container_id: str) -> None:
    """End and remove a container, running or not, and see it gone. Idempotent. Raises EngineError."""
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
    """Return Docker's refusal in plain words where we know them."""
    text = str(error.explanation or error)
    for part, plain in _PLAIN_WORDS.items():
        if part in text:
            return EngineError(plain)
    return EngineError(f"Docker refused: {text[:300]}")
