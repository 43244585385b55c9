"""Labelled traces of working and idle servers: how ours and the stock culler's rule do on the same ones."""

from collections.abc import Iterator
from statistics import mean

from bench.figures import Figure
from support.idle_traces import score, stop_by_ours, stop_by_stock

SEEDS = range(3)


def measure_idle() -> Iterator[Figure]:
    """Of all stops, those of idle servers; of all idle servers, those stopped; working ones stopped; idle time paid."""
    ours, theirs = score(stop_by_ours, SEEDS), score(stop_by_stock, SEEDS)
    yield Figure("idle.precision", ours.precision, theirs.precision, "share", "ours 1")
    yield Figure("idle.recall", ours.recall, theirs.recall, "share", "ours 1")
    yield Figure("idle.false_stops", len(ours.false_stops), len(theirs.false_stops), "servers", "ours 0")
    yield Figure("idle.hours", mean(ours.idle_hours), mean(theirs.idle_hours), "h idle", "-")
