"""The Debian that images stand on: from a registry where one answers, else bootstrapped from Debian's packages.

Air-gapped sites have a mirror of Debian's packages and no image registry; the result is the same kind of image.
"""

import re
import threading
from collections.abc import Iterator
from typing import IO, Any

from docker import DockerClient
from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException

from nbgpu.core.errors import EngineError, ImageError
from nbgpu.images.debootstrap import root_file_system
from nbgpu.images.lock import Report, build_lock

PROBE_SECONDS = 10.0
ORIGIN_LABEL = "org.nbgpu.origin"


def ensure_debian(client: DockerClient, name: str, report: Report, *, refresh: bool = False) -> str:
    """Return the id of the local image of a Debian ("debian:bookworm-slim"); fetch or make it when it is missing."""
    suite = name.partition(":")[2].removesuffix("-slim")
    local = f"nbgpu/debian:{suite}"
    with build_lock(f"debian-{suite}", report):
        if refresh or not _is_there(client, local):
            _make(client, name, local, report)
    return str(client.images.get(local).id)


def _is_there(client: DockerClient, local: str) -> bool:
    try:
        client.images.get(local)
    except ImageNotFound:
        return False
    return True


def _make(client: DockerClient, name: str, local: str, report: Report) -> None:
    problem = probe_registry(client, name)
    if problem is None:
        report(f"Fetching {name} from its registry")
        _pull(client, name, report)
        client.images.get(name).tag(local)
    else:
        report(f"No registry gives {name} ({problem}): bootstrapping it from Debian's packages")
        bootstrap(client, local.partition(":")[2], local, report)


def probe_registry(client: DockerClient, name: str, *, seconds: float = PROBE_SECONDS) -> str | None:
    """Return why the engine can't have an image from its registry, within `seconds`; None if it can."""
    answers: list[str | None] = []

    def ask() -> None:
        try:
            client.api.inspect_distribution(name)
            answers.append(None)
        except (DockerException, RequestException) as error:
            answers.append(_brief(str(error)))

    thread = threading.Thread(target=ask, name="registry-probe", daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else f"no answer in {seconds:g} s"


def bootstrap(client: DockerClient, suite: str, local: str, report: Report) -> None:
    """Make a root file system from Debian's packages and import it under the name `local`. SetupError, ImageError."""
    with root_file_system(suite, report) as stream:
        report("Importing the root file system into the engine")
        _import(client, stream, local, suite)


def _import(client: DockerClient, stream: IO[bytes], local: str, suite: str) -> None:
    repository, _, tag = local.partition(":")
    changes = [f"LABEL {ORIGIN_LABEL}=debootstrap/{suite}"]
    try:
        client.api.import_image_from_data(stream, repository=repository, tag=tag, changes=changes)
    except (DockerException, RequestException) as error:
        raise EngineError(f"Docker could not import the root file system: {_brief(str(error))}") from error


def _pull(client: DockerClient, name: str, report: Report) -> None:
    repository, _, tag = name.partition(":")
    try:
        events: Iterator[dict[str, Any]] = client.api.pull(repository, tag=tag, stream=True, decode=True)
        for event in events:
            if "error" in event:
                raise ImageError(f"{name} could not be fetched: {event['error']}")
            report(f"  {event.get('id', '')} {event.get('status', '')} {event.get('progress', '')}".rstrip())
    except (DockerException, RequestException) as error:
        raise ImageError(f"{name} could not be fetched: {_brief(str(error))}") from error


def _brief(text: str) -> str:
    """Return the last, most telling part of an error's text, on one line."""
    inner = re.search(r'\("(.*)"\)$', text.strip(), re.DOTALL)
    return " ".join((inner[1] if inner else text).split())[-300:]
