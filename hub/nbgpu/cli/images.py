"""`nbgpu images`: build the catalogue's images, and see what is built."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nbgpu.core.units import render_size

if TYPE_CHECKING:
    from docker import DockerClient

    from nbgpu.images.catalog import Catalog
    from nbgpu.images.lock import Report
    from nbgpu.images.manifest import Image

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

    client = connect(timeout=30)
    catalog = load_catalog()
    rows = [describe_row(client, image, catalog) for image in catalog]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table("Image", "Name", "Brings", "State", "Id", "Size", "Built at")
    for row in rows:
        table.add_row(*map(escape, _cells(row)))
    Console().print(table)


def describe_row(client: "DockerClient", image: "Image", catalog: "Catalog") -> dict[str, Any]:
    """Return what `list --json` says of one image: what is built where it is, else what would be."""
    from nbgpu.images.builder import image_state
    from nbgpu.images.built import apply_labels, find_built

    built = find_built(client, image.slug)
    shown = apply_labels(image, built.labels) if built else image
    return {
        "slug": image.slug,
        "display_name": image.display_name,
        "description": shown.description,
        "variant": shown.variant,
        "python": shown.python,
        "cuda": shown.cuda,
        "cudnn": shown.cudnn,
        "minimum_driver": shown.minimum_driver,
        "frameworks": dict(shown.frameworks),
        "state": image_state(client, image, catalog),
        "id": built.id if built else None,
        "size_bytes": built.size if built else None,
        "built_at": built.created_at.isoformat() if built else None,
    }


def _cells(row: dict[str, Any]) -> list[str]:
    brings = [f"{name} {version}" for name, version in row["frameworks"].items()]
    brings += [f"CUDA {row['cuda']}"] if row["cuda"] else []
    slug = f"{row['slug']} ({row['variant']})" if row["variant"] else row["slug"]
    image_id = (row["id"] or "").removeprefix("sha256:")[:12]
    built_at = (row["built_at"] or "")[:16].replace("T", " ")
    size = render_size(row["size_bytes"]) if row["size_bytes"] else ""
    return [slug, row["display_name"], ", ".join(brings), row["state"], image_id, size, built_at]


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
