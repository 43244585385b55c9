"""A new price, looked at before it is set: by pages and the REST API alike."""

from dataclasses import dataclass
from datetime import datetime

from nbgpu.core.price_edits import build_new_price
from nbgpu.core.prices import Price
from nbgpu.service.books import Books


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChange:
    """A price beside the one that held until then, and how many servers that run now are charged by it."""

    price: Price
    before: Price
    servers: int | None  # None where that can't be asked


def draft_price(books: Books, sku: str, price: str, begin: datetime | None) -> PriceChange:
    """Return what a new price would do; without `begin` it holds from now on. Blocks. Raises InvalidOptions."""
    sheet, now = books.prices.sheet(), books.clock()
    new = build_new_price(sheet, sku, price, begin or now, now=now)
    before = sheet.at(sku, new.effective_from)
    flavor = sku.partition(":")[0]
    running = books.idle.running(None) if books.idle is not None else None
    servers = sum(each.flavor == flavor for each in running) if running is not None else None
    return PriceChange(price=new, before=before or new, servers=servers)
