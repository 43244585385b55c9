"""Builds the images of the catalogue on a Docker engine, with the builder every engine from 20.10 on has."""

import time
from contextlib import suppress
from dataclasses import dataclass

import docker
from docker import DockerClient
from docker.errors import DockerException
from requests.exceptions import RequestException

from nbgpu.core.errors import EngineUnavailable, ImageError
from nbgpu.images.built import (
    INPUTS_LABEL,
    SOURCES_LABEL,
    BuiltImage,
    bare_tag,
    build_labels,
    find_built,
    image_reference,
)
from nbgpu.images.catalog import Catalog, load_catalog
from nbgpu.images.debian import ensure_debian
from nbgpu.images.engine_build import SILENCE_SECONDS, run_build
from nbgpu.images.inputs import Inputs, bare_inputs, complete_inputs, sources_hash
from nbgpu.images.lock import Report, build_lock
from nbgpu.images.manifest import Image
from nbgpu.images.options import BuildOptions, default_options

STAGE_LABEL = "org.nbgpu.stage"  # on the intermediate image that the Dockerfile copies from
STATES = ("not built", "built", "out of date")


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
        return _ensure_chain(engine, catalog or load_catalog(), slug, options or default_options(), tell)
    finally:
        if client is None:
            engine.close()


def image_state(client: DockerClient, image: Image, catalog: Catalog) -> str:
    """Return one of STATES: whether what is built is what the folders of the image and its bases now hold."""
    built = find_built(client, image.slug)
    if built is None:
        return STATES[0]
    is_current = built.labels.get(SOURCES_LABEL) == sources_hash(catalog.with_bases([image.slug]))
    return STATES[1] if is_current else STATES[2]


def _ensure_chain(client: DockerClient, catalog: Catalog, slug: str, options: BuildOptions, report: Report) -> Ensured:
    """Build bare images upwards, each on the bare one below; complete only the one that was asked for."""
    asked = catalog.find(slug).in_variant(options.variant)
    chain = catalog.with_bases([slug])
    base_id = ensure_debian(client, chain[0].base, report, refresh=options.refresh_base)
    for image in [*chain[:-1], asked]:
        bare = _Target(image, bare_inputs(image, options, base_id), (bare_tag(image.variant),))
        base_id, _ = _ensure_target(client, bare, report)
    names = (asked.variant, "latest") if asked.variant else ("latest",)
    complete = _Target(asked, complete_inputs(options, base_id), names, sources=sources_hash(chain))
    image_id, was_built = _ensure_target(client, complete, report)
    if not was_built:
        report(f"{slug}: up to date")
    return Ensured(asked, image_id, was_built=was_built)


@dataclass(frozen=True, slots=True)
class _Target:
    """One image to have in the engine: its inputs and its tags; what is there is looked up by the first."""

    image: Image
    inputs: Inputs
    tags: tuple[str, ...]
    sources: str | None = None

    def __str__(self) -> str:
        return f"{self.image.slug} ({self.tags[0]})"

    @property
    def labels(self) -> dict[str, str]:
        sources = {SOURCES_LABEL: self.sources} if self.sources else {}
        return build_labels(self.image) | {INPUTS_LABEL: self.inputs.hash} | sources


def _ensure_target(client: DockerClient, target: _Target, report: Report) -> tuple[str, bool]:
    """Return the id, and whether it was built now."""
    there = _up_to_date(client, target)
    if there is None:
        _check_wheels(target)
        with build_lock(target.image.slug, report):
            there = _up_to_date(client, target)
            if there is None:
                return _build(client, target, report), True
    _tag(client, there.id, target)
    return there.id, False


def _up_to_date(client: DockerClient, target: _Target) -> BuiltImage | None:
    built = find_built(client, target.image.slug, target.tags[0])
    return built if built is not None and built.labels.get(INPUTS_LABEL) == target.inputs.hash else None


def _build(client: DockerClient, target: _Target, report: Report) -> str:
    before = find_built(client, target.image.slug, target.tags[0])
    report(f"{target}: building")
    started = time.monotonic()
    built = run_build(client, target.image, target.inputs, target.labels, report)
    _tag(client, built, target)
    _drop_old(client, target, before.id if before is not None and before.id != built else None, keep=built)
    report(f"{target}: built in {time.monotonic() - started:.0f} s")
    return built


def _check_wheels(target: _Target) -> None:
    """Refuse before the build what only a wheel or another index can bring: a "+cpu" version."""
    image, inputs = target.image, target.inputs
    if "PIP_INDEX_URL" not in inputs.arguments:
        return
    for name, version in image.frameworks.items():
        there = any(wheel.startswith(f"{name}-{version}-") for wheel in inputs.wheels)
        if "+" in version and not there and not inputs.arguments["PIP_INDEX_URL"]:
            raise ImageError(
                f"The variant {image.variant} of {image.slug} needs {name} {version}, which the default package index "
                f"does not have. Put its wheel into a folder and give that with --wheels: `pip download --no-deps "
                f"--python-version {image.python} --only-binary :all: --dest wheels {name}=={version} "
                f"--index-url <the index of {name}'s {image.variant} builds>`."
            )


def _tag(client: DockerClient, image_id: str, target: _Target) -> None:
    """Give the image its names, at once: until here an interrupted build changes nothing."""
    for tag in target.tags:
        client.api.tag(image_id, *image_reference(target.image.slug, tag).split(":"), force=True)


def _drop_old(client: DockerClient, target: _Target, replaced: str | None, *, keep: str) -> None:
    """Let go of stages and of the image before the replaced one, which stays: a start may just have looked it up.

    `keep` is what was built now: where two checkouts take turns, it is also what one of them had before the other.
    """
    slug, previous = target.image.slug, f"{target.tags[0]}-previous"
    stages = client.api.images(filters={"dangling": True, "label": f"{STAGE_LABEL}={slug}"})
    old = [stage["Id"] for stage in sorted(stages, key=lambda stage: stage["Created"])[:-1]]
    if replaced is not None:
        before = find_built(client, slug, previous)
        client.api.tag(replaced, *image_reference(slug, previous).split(":"), force=True)
        old += [before.id] if before is not None and before.id not in (replaced, keep) else []
    for image_id in old:
        with suppress(DockerException):  # in use by a server, or another image stands on it
            client.api.remove_image(image_id)
