"""Builds the images of the catalogue on a Docker engine, with the builder every engine from 20.10 on has."""

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import docker
from docker import DockerClient
from docker.errors import DockerException
from requests.exceptions import RequestException

from nbgpu.core.errors import EngineUnavailable, ImageError
from nbgpu.images.built import (
    BASE_LABEL,
    INPUTS_LABEL,
    SOURCES_LABEL,
    BuiltImage,
    build_labels,
    find_built,
    image_reference,
)
from nbgpu.images.catalog import Catalog, load_catalog
from nbgpu.images.debian import Report, ensure_debian
from nbgpu.images.inputs import Inputs, collect_inputs, collect_sources
from nbgpu.images.manifest import Image
from nbgpu.images.options import BuildOptions, default_options

SILENCE_SECONDS = 1800  # the longest that one step of a build may say nothing
LOCK_SECONDS = 3600.0
STATES = ("not built", "built", "out of date")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_NOISE = re.compile(r"--->|Removing intermediate container")  # the builder about itself
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Ensured:
    """What `ensure_image` found or made."""

    image: Image
    id: str
    was_built: bool  # False: it was up to date


def connect(timeout: float = SILENCE_SECONDS) -> DockerClient:
    """Return a client of the engine that `DOCKER_HOST` names, else of the local one. EngineUnavailable."""
    try:
        client = docker.from_env(timeout=timeout)
        client.ping()
    except (DockerException, RequestException) as error:
        raise EngineUnavailable(
            f"No Docker engine answers; start one (`nbgpu setup` does). It said: {error}"
        ) from error
    return client


def ensure_image(
    slug: str,
    options: BuildOptions | None = None,
    report: Report | None = None,
    *,
    client: DockerClient | None = None,
    catalog: Catalog | None = None,
) -> Ensured:
    """Build an image and the images it stands on, unless what is there has the same inputs. Safe to repeat.

    `options` are the machine's own by default. Raises ImageError, SetupError, EngineUnavailable.
    """
    engine = client or connect()
    tell = report or (lambda _line: None)
    try:
        with _one_build_at_a_time(tell):
            return _ensure_chain(engine, catalog or load_catalog(), slug, options or default_options(), tell)
    finally:
        if client is None:
            engine.close()


def image_state(client: DockerClient, image: Image) -> str:
    """Return one of STATES: whether what is built is what the catalogue's folder and base now are."""
    built = find_built(client, image.slug)
    if built is None:
        return STATES[0]
    base = find_built(client, image.base) if image.has_catalogue_base else None
    current = Inputs(collect_sources(image), {}, {}, {}).sources_hash
    stale_base = base is not None and built.labels.get(BASE_LABEL) != base.id
    return STATES[2] if stale_base or built.labels.get(SOURCES_LABEL) != current else STATES[1]


def _ensure_chain(client: DockerClient, catalog: Catalog, slug: str, options: BuildOptions, report: Report) -> Ensured:
    asked = catalog.find(slug).in_variant(options.variant)
    ensured: Ensured | None = None
    for image in catalog.with_bases([slug]):
        in_variant = asked if image.slug == slug else image
        if ensured is None or not image.has_catalogue_base:
            base_id = ensure_debian(client, image.base, report, refresh=options.refresh_base)
        else:
            base_id = ensured.id
        ensured = _ensure_one(client, in_variant, collect_inputs(in_variant, options, base_id), report)
    if ensured is None:
        raise ImageError(f"The image {slug!r} has nothing to build.")
    return ensured


def _ensure_one(client: DockerClient, image: Image, inputs: Inputs, report: Report) -> Ensured:
    before = find_built(client, image.slug, image.variant)
    if before is not None and before.labels.get(INPUTS_LABEL) == inputs.hash:
        report(f"{image.slug}: up to date")
        _tag(client, before.id, image)
        return Ensured(image, before.id, was_built=False)
    _check_wheels(image, inputs)
    report(f"{image.slug}: building" + (f" the variant {image.variant}" if image.variant else ""))
    started = time.monotonic()
    built = _build(client, image, inputs, report)
    _tag(client, built, image)
    _drop(client, before, built)
    report(f"{image.slug}: built in {time.monotonic() - started:.0f} s")
    return Ensured(image, built, was_built=True)


def _check_wheels(image: Image, inputs: Inputs) -> None:
    """Refuse before the build what only a wheel or another index can bring: a "+cpu" version."""
    for name, version in image.frameworks.items():
        there = any(wheel.startswith(f"{name}-{version}-") for wheel in inputs.wheels)
        if "+" in version and not there and not inputs.arguments["PIP_INDEX_URL"]:
            raise ImageError(
                f"The variant {image.variant} of {image.slug} needs {name} {version}, which the default package index "
                f"does not have. Put its wheel into a folder and give that with --wheels: `pip download --no-deps "
                f"--python-version {image.python} --only-binary :all: --dest wheels {name}=={version} "
                f"--index-url <the index of {name}'s {image.variant} builds>`."
            )


def _build(client: DockerClient, image: Image, inputs: Inputs, report: Report) -> str:
    labels = build_labels(image) | {
        INPUTS_LABEL: inputs.hash,
        SOURCES_LABEL: inputs.sources_hash,
        BASE_LABEL: inputs.arguments["BASE"],
    }
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
        dockerfile="Dockerfile.site",
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
        for line in filter(None, map(str.strip, event.get("stream", event.get("error", "")).splitlines())):
            if line.startswith("Step "):
                report(f"{image.slug}: {_shorten(line)}")
            else:
                tail = [*tail[-7:], line] if _NOISE.match(line) is None else tail
                report(f"  {line}")
        if "error" in event:
            raise ImageError(f"{image.slug} could not be built: {' | '.join(tail)}")
    if not built:
        raise ImageError(f"Docker named no image at the end of the build of {image.slug}: {' | '.join(tail)}")
    return built


def _shorten(line: str) -> str:
    plain = " ".join(line.replace("\\", " ").split())
    return plain if len(plain) <= _WIDTH else plain[: _WIDTH - 1] + "…"


def _tag(client: DockerClient, image_id: str, image: Image) -> None:
    """Give the image its names, at once: until here an interrupted build changes nothing."""
    for reference in {image_reference(image.slug, image.variant), image_reference(image.slug)}:
        client.api.tag(image_id, *reference.split(":"), force=True)


def _drop(client: DockerClient, before: BuiltImage | None, now: str) -> None:
    """Let go of the image that this one replaces. The engine keeps it while a server or an image stands on it."""
    if before is not None and before.id != now:
        with suppress(DockerException):
            client.api.remove_image(before.id, noprune=True)


@contextmanager
def _one_build_at_a_time(report: Report) -> Iterator[None]:
    path = Path(tempfile.gettempdir(), f"nbgpu-images-{os.getuid()}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _wait_for_lock(descriptor, report)
        yield
    finally:
        os.close(descriptor)  # lets the lock go


def _wait_for_lock(descriptor: int, report: Report) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    said = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ImageError(f"Another build of images has not ended in {LOCK_SECONDS / 60:g} min.") from None
            if not said:
                report("Another build of images is under way: waiting for it")
            said = True
            time.sleep(0.5)
        else:
            return
