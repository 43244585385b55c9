"""Setting a price from a time on. Pure."""

from datetime import datetime, timedelta

from nbgpu.core.errors import InvalidOptions
from nbgpu.core.periods import to_instant
from nbgpu.core.prices import Price, PriceSheet
from nbgpu.core.texts import Text
from nbgpu.core.units import parse_price, render_price

FURTHEST = timedelta(days=3653)  # from now, that a price may begin


def build_new_price(sheet: PriceSheet, sku: str, price: str, begin: datetime, *, now: datetime) -> Price:
    """Return a SKU's new price. Raises InvalidOptions: no such SKU or price; a time past or too far off."""
    if begin < now.replace(microsecond=0):
        raise InvalidOptions(
            Text(
                "%(time)s is past: what was charged stays. Give a time to come, or a credit.",
                time=begin.strftime("%Y-%m-%d %H:%M:%S %Z"),
            )
        )
    if begin - now > FURTHEST:
        raise InvalidOptions(Text("A price begins within 10 years from now. Give an earlier time."))
    known = sheet.at(sku, int(now.timestamp()))
    if known is None:
        raise InvalidOptions(Text("There is no SKU “%(sku)s”: the list of prices has all.", sku=sku[:80]))
    try:
        micro = parse_price(price)
    except ValueError as error:
        raise InvalidOptions(
            Text("The price “%(price)s” is not %(allowed)s.", price=price[:40], allowed=str(error))
        ) from None
    return Price(
        sku_id=sku,
        effective_from=int(begin.timestamp()),
        unit=known.unit,
        list_unit_price=micro,
        currency=known.currency,
    )


def describe_price(price: Price) -> str:
    """Return a price as one line, for the audit log."""
    begin = to_instant(price.effective_from).isoformat()
    return f"{render_price(price.list_unit_price)} {price.currency} an hour from {begin}"
