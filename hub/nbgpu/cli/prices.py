"""`nbgpu prices`: what an hour of each SKU costs, and from when on."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nbgpu.cli.author import find_author
from nbgpu.cli.lists import open_site, show_time
from nbgpu.cli.output import JsonOption, print_json, print_table
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption
from nbgpu.core.units import render_price

if TYPE_CHECKING:
    from nbgpu.core.prices import Price

app = typer.Typer(invoke_without_command=True)


@app.callback()
def prices(
    context: typer.Context,
    *,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what an hour of each SKU costs now, and what is to come."""
    if context.invoked_subcommand is not None:
        return
    site = open_site(data, config)
    now = int(datetime.now(UTC).timestamp())
    entries = site.prices.entries()
    current = {id(price) for price in _current([entry.price for entry in entries], now)}
    shown = [entry for entry in entries if id(entry.price) in current or entry.price.effective_from > now]
    if as_json:
        print_json([_plain(entry.price) | {"source": entry.source, "author": entry.author} for entry in shown])
        return
    print_table(
        ["SKU", "Price", "Unit", "From", "Set by"],
        [
            [
                entry.price.sku_id,
                f"{render_price(entry.price.list_unit_price)} {entry.price.currency}",
                entry.price.unit,
                _show_from(entry.price),
                entry.author,
            ]
            for entry in sorted(shown, key=lambda each: (each.price.sku_id, each.price.effective_from))
        ],
        empty="There is no price yet: the hub takes them over from the menu when it starts.",
    )


@app.command("set")
def set_price(
    sku: Annotated[str, typer.Argument(help="The SKU, as `nbgpu prices` shows it.")],
    price: Annotated[str, typer.Argument(help='Price of an hour, like "1.20".')],
    *,
    since: Annotated[
        str | None, typer.Option("--from", help="When it begins to hold: 2026-12-24T18:00, in this machine's zone.")
    ] = None,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Set a price from now on, or from a time to come; running sessions are charged by it from then on."""
    from nbgpu.core.price_edits import build_new_price

    site, now = open_site(data, config), datetime.now(UTC)
    begin = parse_time(since) if since is not None else now
    new = build_new_price(site.prices.sheet(), sku, price, begin, now=now)
    site.prices.add([new], author=find_author())
    typer.echo(f"{sku}: {render_price(new.list_unit_price)} {new.currency} an hour from {show_time(begin)}.")


def parse_time(text: str) -> datetime:
    """Return an instant of a text; without a zone it is in this machine's. Raises InvalidOptions."""
    from nbgpu.core.errors import InvalidOptions

    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise InvalidOptions(f"“{text[:40]}” is no time: give one like 2026-12-24T18:00.") from None


def _current(prices: "list[Price]", now: int) -> "list[Price]":
    """Those rows that hold now."""
    holds: dict[str, Price] = {}
    for price in prices:
        last = holds.get(price.sku_id)
        if price.effective_from <= now and (last is None or price.effective_from >= last.effective_from):
            holds[price.sku_id] = price
    return list(holds.values())


def _show_from(price: "Price") -> str:
    return show_time(datetime.fromtimestamp(price.effective_from, UTC)) if price.effective_from else "always"


def _plain(price: "Price") -> dict[str, Any]:
    begin = datetime.fromtimestamp(price.effective_from, UTC).isoformat() if price.effective_from else None
    return {
        "sku_id": price.sku_id,
        "list_unit_price_micro": price.list_unit_price,
        "currency": price.currency,
        "unit": price.unit,
        "effective_from": begin,
    }
