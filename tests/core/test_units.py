"""Sizes, spans and prices: exact, and back again."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbgpu.core.units import parse_price, parse_size, parse_span, render_money, render_price, render_size, render_span


@pytest.mark.parametrize(
    ("text", "size"), [("4 GiB", 4 * 2**30), ("512MiB", 2**29), ("1.5 GiB", 3 * 2**29), ("7 B", 7), ("2 TiB", 2**41)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        "4 GB",
        "-1 GiB",
        "4 GiB 2",
        "four GiB",
        "1e3 B",
        "4 GiB\n",
        "٤ GiB",
        "4_0 GiB",
        "9" * 16 + " B",
        "8388608 TiB",
    ],
)
def test_wrong_sizes_say_what_is_allowed(text):
    with pytest.raises(ValueError, match='like "4 GiB"'):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("45 s", timedelta(seconds=45)),
        ("1.5 h", timedelta(minutes=90)),
        ("2d", timedelta(days=2)),
        ("3 min", timedelta(minutes=3)),
    ],
)
def test_spans(text, span):
    assert parse_span(text) == span


@pytest.mark.parametrize("text", ["8", "8 hours", "h", "-1 h", "8 h\n", "٨ h", "1_0 h", "36601 d", "9999999999 s"])
def test_wrong_spans_say_what_is_allowed(text):
    with pytest.raises(ValueError, match='like "8 h"'):
        parse_span(text)


BIG = ("999999999.999999", 10**15 - 1)


@pytest.mark.parametrize(("text", "micro"), [("1.20", 1_200_000), ("0", 0), ("0.000001", 1), ("3", 3_000_000), BIG])
def test_prices_are_integers_of_micro_units(text, micro):
    assert parse_price(text) == micro


NO_PRICES = [
    "1e30",
    "1e999999",
    "1_000",
    "١٢",
    "１",
    "1.",
    ".5",
    " 1",
    "1\n",
    "+1",
    "1000000000",
    "1.2000000",
    "\udcff",
]


@pytest.mark.parametrize("text", ["-1", "0.0000001", "NaN", "Infinity", "1,20", "", "1 USD", *NO_PRICES])
def test_wrong_prices_say_what_is_allowed(text):
    with pytest.raises(ValueError, match='like "1.20"'):
        parse_price(text)


@given(st.integers(0, 10**15 - 1))
def test_a_price_survives_being_shown(micro):
    assert parse_price(render_price(micro)) == micro


@pytest.mark.parametrize(("micro", "text"), [(600_000, "0.60"), (125_000, "0.125"), (0, "0.00"), (1, "0.000001")])
def test_prices_show_two_places_or_what_they_need(micro, text):
    assert render_price(micro) == text


@pytest.mark.parametrize(
    ("size", "text"), [(None, "n/a"), (0, "0 B"), (2**30, "1 GiB"), (3 * 2**29, "1.5 GiB"), (1023, "1023 B")]
)
def test_sizes_shown(size, text):
    assert render_size(size) == text


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(hours=8), "8 h"),
        (timedelta(minutes=90), "1 h 30 min"),
        (timedelta(), "0 s"),
        (timedelta(days=1), "24 h"),
        (timedelta(days=2, hours=3), "2 d 3 h"),
    ],
)
def test_spans_shown(span, text):
    assert render_span(span) == text


@pytest.mark.parametrize(
    ("micro", "text"),
    [
        (0, "0.00"),
        (9_375, "0.0094"),
        (883_819, "0.8838"),
        (999_999, "1.00"),
        (1_234_567, "1.23"),
        (-500_000, "-0.50"),
        (12_000_000_000, "12000.00"),
    ],
)
def test_money_is_short(micro, text):
    assert render_money(micro) == text
