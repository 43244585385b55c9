"""Sizes, spans and prices as people write them, and back."""

import re
from datetime import timedelta
from decimal import Decimal

# Digits are 0 to 9 alone, and never so many that what is made of them fits nowhere.
_SIZE = re.compile(r" *([0-9]{1,15}(?:\.[0-9]{1,9})?) *(B|KiB|MiB|GiB|TiB) *")
_SPAN = re.compile(r" *([0-9]{1,9}(?:\.[0-9]{1,6})?) *(s|min|h|d) *")
_PRICE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
_SIZE_FACTORS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SPAN_FACTORS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_MOST_BYTES = 2**63  # what the database and the container engine can't hold any more
_LONGEST_SPAN = 100 * 366 * 86400
MICRO = 1_000_000  # micro-units of the billing currency in one unit


def parse_size(text: str) -> int:
    """Return the bytes of a size like "4 GiB", less than 8 EiB. ValueError says what is allowed."""
    match = _SIZE.fullmatch(text)
    size = int(Decimal(match[1]) * _SIZE_FACTORS[match[2]]) if match is not None else _MOST_BYTES
    if size >= _MOST_BYTES:
        raise ValueError('a number and B, KiB, MiB, GiB or TiB, like "4 GiB"')
    return size


def parse_span(text: str) -> timedelta:
    """Return the span of a text like "8 h", at most 100 years. ValueError says what is allowed."""
    match = _SPAN.fullmatch(text)
    seconds = Decimal(match[1]) * _SPAN_FACTORS[match[2]] if match is not None else _LONGEST_SPAN + 1
    if seconds > _LONGEST_SPAN:
        raise ValueError('a number and s, min, h or d, like "8 h"')
    return timedelta(seconds=float(seconds))


def parse_price(text: str) -> int:
    """Return a price like "1.20" in micro-units. ValueError says what is allowed."""
    if _PRICE.fullmatch(text) is None:
        raise ValueError('a price of at least 0, up to 9 digits before the point and 6 after it, like "1.20"')
    return int(Decimal(text) * MICRO)


def render_size(size: int | None) -> str:
    """Return bytes as a person reads them: "80 GiB", "512 MiB"; "n/a" where not reported."""
    if size is None:
        return "n/a"
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size >= _SIZE_FACTORS[unit]:
            return f"{size / _SIZE_FACTORS[unit]:.1f}".removesuffix(".0") + f" {unit}"
    return f"{size} B"


def render_price(micro: int) -> str:
    """Return micro-units as a decimal with at least two places: "0.60", "0.125"."""
    text = f"{Decimal(micro) / MICRO:.6f}".rstrip("0")
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(2, '0')}"


def render_money(micro: int) -> str:
    """Return an amount as a person reads it: "12.35", below one "0.0094"; rounded half to even."""
    places = 2 if abs(micro) >= MICRO else 4
    text = f"{round(Decimal(micro) / MICRO, places):f}"
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.rstrip('0').ljust(2, '0')}"


def render_span(span: timedelta) -> str:
    """Return a span as a person reads it: "8 h", "1 h 30 min", "45 s"; days only from two on."""
    seconds = int(span.total_seconds())
    parts = []
    days = [("d", 86400)] if span >= timedelta(days=2) else []
    for unit, factor in (*days, ("h", 3600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, factor)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"
