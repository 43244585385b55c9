"""`nbgpu images`: build the catalogue's images, and see what is built."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nbgpu.core.units import render_size

if TYPE_CHECKING:
    from nbgpu.images.listing import ListedImage
    from nbgpu.images.lock import Report

app = typer.Typer(help="Build the catalogue's images, and see what is built.", no_args_is_help=True)

_QUIET_SECONDS = 10.0  # without a terminal, a step's details are a line at most this often


@app.command()
def build(
    slugs: Annotated[list[str] | None, typer.Argument(help="Images to build; all of the catalogue by default.")] = None,
    *,
    variant: Annotated[str | None, typer.Option(help="For images that have it: cuda (the default) or cpu.")] = None,
    wheels: Annotated[
        Path | None, typer.Option(help="Folder of wheels, preferred to the index (`pip download` fills it).")
    ] = None,
    index: Annotated[str | None, typer.Option(help="URL of a package index mirror. Default: pip's own.")] = None,
    ca_bundle: Annotated[
        Path | None, typer.Option(help="PEM file of authorities that the images trust too. Default: pip's own.")
    ] = None,
    refresh_base: Annotated[bool, typer.Option("--refresh-base", help="Fetch or bootstrap Debian again.")] = False,
) -> None:
    """Build images and what they stand on. What is up to date is left alone."""
    from nbgpu.images.builder import connect, ensure_image
    from nbgpu.images.catalog import load_catalog
    from nbgpu.images.options import default_options

    machine = default_options()
    options = replace(
        machine,
        variant=variant,
        wheels=wheels,
        index=index or machine.index,
        ca_bundle=ca_bundle or machine.ca_bundle,
        refresh_base=refresh_base,
    )
    catalog = load_catalog()
    wanted = [catalog.find(slug) for slug in slugs] if slugs else list(catalog)
    client = connect()
    with _progress() as report:
        for image in wanted:
            with_variant = variant if slugs is not None or variant in image.variants else None
            ensure_image(image.slug, replace(options, variant=with_variant), report, client=client, catalog=catalog)
            options = replace(options, refresh_base=False)  # once is enough for all of them


@app.command("list")
def list_images(
    *, as_json: Annotated[bool, typer.Option("--json", help="For scripts: a list of objects.")] = False
) -> None:
    """List the catalogue: what each image brings, and whether it is built."""
    from nbgpu.images.builder import connect
    from nbgpu.images.catalog import load_catalog
    from nbgpu.images.listing import list_image

    client = connect(timeout=30)
    catalog = load_catalog()
    images = [list_image(client, image, catalog) for image in catalog]
    if as_json:
        typer.echo(json.dumps([_plain(image) for image in images], indent=2))
        return
    table = Table("Image", "Name", "Brings", "State", "Id", "Size", "Built at")
    for image in images:
        table.add_row(*map(escape, _cells(image)))
    Console().print(table)


def _plain(image: "ListedImage") -> dict[str, Any]:
    return asdict(image) | {"built_at": image.built_at.isoformat() if image.built_at else None}


def _cells(image: "ListedImage") -> list[str]:
    slug = f"{image.slug} ({image.variant})" if image.variant else image.slug
    image_id = (image.id or "").removeprefix("sha256:")[:12]
    built_at = image.built_at.isoformat()[:16].replace("T", " ") if image.built_at else ""
    size = render_size(image.size_bytes) if image.size_bytes else ""
    return [slug, image.display_name, ", ".join(image.brings), image.state, image_id, size, built_at]


@contextmanager
def _progress() -> Iterator["Report"]:
    """Give a place to put lines: steps stay, with the time since the start; details pass by in the last line."""
    console = Console(highlight=False, soft_wrap=True)
    started = time.monotonic()
    said_at = started

    with console.status("Starting") as status:

        def report(line: str) -> None:
            nonlocal said_at
            elapsed = f"{time.monotonic() - started:6.1f} s"
            is_detail = line.startswith("  ")
            if is_detail and console.is_terminal:
                status.update(f"{elapsed}  [dim]{escape(line.strip()[:100])}[/]")
            elif not is_detail or time.monotonic() - said_at >= _QUIET_SECONDS:
                said_at = time.monotonic()
                console.print(escape(f"{elapsed}  {line}"))

        yield report
