"""One build on the engine: the context goes in, the builder's lines come out, and an image id at the end."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

from docker import DockerClient
from docker.errors import DockerException
from requests.exceptions import RequestException

from nbgpu.core.errors import ImageError
from nbgpu.images.inputs import Inputs
from nbgpu.images.lock import Report
from nbgpu.images.manifest import Image

SILENCE_SECONDS = 1800  # the longest that one step of a build may say nothing
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_NOISE = re.compile(r"--->|Removing intermediate container")  # the builder about itself
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_WIDTH = 160


def run_build(client: DockerClient, image: Image, inputs: Inputs, labels: Mapping[str, str], report: Report) -> str:
    """Build and return the new image's id; it has no name yet. ImageError."""
    with tempfile.TemporaryFile(prefix="nbgpu-context-") as context:
        inputs.write_context(context)
        context.seek(0)
        try:
            return _follow(image, _start(client, context, inputs.arguments, labels), report)
        except (DockerException, RequestException) as error:
            raise ImageError(f"Docker failed while it built {image.slug}: {error}") from error


def _start(
    client: DockerClient, context: IO[bytes], arguments: Mapping[str, str], labels: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    proxies = {key: os.environ[key] for key in _PROXIES if os.environ.get(key)}
    events: Iterator[dict[str, Any]] = client.api.build(
        fileobj=context,
        custom_context=True,
        buildargs={**proxies, **arguments},
        labels=dict(labels),
        rm=True,
        forcerm=True,  # also when it fails, or when we hang up: closing the stream ends the build
        decode=True,
        timeout=SILENCE_SECONDS,
    )
    return events


def _follow(image: Image, events: Iterator[dict[str, Any]], report: Report) -> str:
    """Pass the builder's lines on; return the id of what it made. ImageError with its last lines."""
    tail: list[str] = []
    built = ""
    for event in events:
        built = event.get("aux", {}).get("ID", built)
        for line in _lines(event):
            if line.startswith("Step "):
                report(f"{image.slug}: {_shorten(line)}")
            else:
                tail = [*tail[-7:], _shorten(line)] if _NOISE.match(line) is None else tail
                report(f"  {line}")
        if "error" in event:
            raise ImageError(f"{image.slug} could not be built: {' | '.join(tail)}")
    if not built:
        raise ImageError(f"Docker named no image at the end of the build of {image.slug}: {' | '.join(tail)}")
    return built


def _lines(event: dict[str, Any]) -> list[str]:
    text = _COLOUR.sub("", event.get("stream", event.get("error", "")))
    return [line.strip() for line in text.splitlines() if line.strip()]


def _shorten(line: str) -> str:
    plain = " ".join(line.replace("\\", " ").split())
    return plain if len(plain) <= _WIDTH else plain[: _WIDTH - 1] + "…"
