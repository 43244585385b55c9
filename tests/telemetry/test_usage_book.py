"""Sums between samples and database: written, repeated, delayed, set back: nothing is lost and nothing doubled."""

from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nbgpu.core.usage import HOUR, MINUTE, Metered, Usage
from nbgpu.telemetry import usage_book
from nbgpu.telemetry.usage_book import UsageBook

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
METERED = [Metered("s1", "GPU-0"), Metered("s1"), Metered("s2", "GPU-0")]


class Writing(RuleBasedStateMachine):
    """A book and a table that rows are replaced in, against a count of what was ever added."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.book = UsageBook()
        self.table: dict[tuple[timedelta, str, datetime, Metered], Usage] = {}
        self.added = dict.fromkeys(METERED, 0)
        self.unwritten = dict.fromkeys(METERED, 0)

    @rule(metered=st.sampled_from(METERED), ms=st.integers(0, 30_000), late_s=st.integers(0, 45))
    def add(self, metered, ms, late_s) -> None:
        self.now += timedelta(milliseconds=ms)
        usage = Usage(sampled_ms=ms, busy_ms=ms // 2)
        self.book.add(metered, self.now - timedelta(seconds=late_s), usage)
        self.added[metered] += ms
        self.unwritten[metered] += ms

    @rule(seconds=st.integers(1, 20_000))
    def pause(self, seconds) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(seconds=st.integers(1, 20_000))
    def set_clock_back(self, seconds) -> None:
        self.now -= timedelta(seconds=seconds)

    @rule(repeated=st.booleans(), confirmed=st.booleans())
    def write(self, repeated, confirmed) -> None:
        """The answer may be lost although the database has it."""
        pending = self.book.pending()
        for _ in range(1 + repeated):
            self.table |= {(span, each.run, each.starts_at, each.metered): each.usage for span, each in pending}
        if confirmed:
            self.book.confirm(pending)
        self.unwritten = dict.fromkeys(METERED, 0)

    @rule()
    def write_while_more_comes(self) -> None:
        pending = self.book.pending()
        self.add(METERED[0], 2000, 0)
        self.table |= {(span, each.run, each.starts_at, each.metered): each.usage for span, each in pending}
        self.book.confirm(pending)
        self.unwritten = dict.fromkeys(METERED, 0) | {METERED[0]: 2000}

    @rule()
    def kill(self) -> None:
        """What was not written is lost, and no more."""
        for metered in METERED:
            self.added[metered] -= self.unwritten[metered]
        self.unwritten = dict.fromkeys(METERED, 0)
        self.book = UsageBook()

    @invariant()
    def the_table_has_what_was_added(self) -> None:
        for span in (MINUTE, HOUR):
            for metered in METERED:
                rows = [usage for key, usage in self.table.items() if (key[0], key[3]) == (span, metered)]
                assert sum(row.sampled_ms for row in rows) == self.added[metered] - self.unwritten[metered]


Writing.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestWriting = Writing.TestCase


def test_a_book_does_not_grow_while_the_database_is_away(monkeypatch):
    monkeypatch.setattr(usage_book, "MOST_MINUTES", 10)
    book = UsageBook()
    for number in range(100):
        book.add(METERED[0], NOON + number * MINUTE, Usage(sampled_ms=60_000))
        pending = book.pending()
    assert len([entry for span, entry in pending if span == MINUTE]) == 10
    hours = [entry.usage.sampled_ms for span, entry in pending if span == HOUR]
    assert sum(hours) == 6_000_000, "the hours have what the dropped minutes had"


def test_what_is_written_and_over_is_forgotten():
    book = UsageBook()
    for number in range(600):
        book.add(METERED[0], NOON + number * MINUTE, Usage(sampled_ms=60_000))
        book.confirm(book.pending())
    assert len(book._sums) < 12
