"""What of a device's traffic is not ours: the page cache writes back later, and hides nothing of others."""

from __future__ import annotations

import pytest

from gridwright.interference.counters import Ledger

MB = 1_000_000


def ledger() -> Ledger:
    return Ledger(overhead=0.05)


def test_what_is_written_back_later_is_ours() -> None:
    book = ledger()
    book.take((0, 0), (0, 500 * MB), dirty=500 * MB)
    book.take((0, 300 * MB), (0, 0), dirty=200 * MB)
    book.take((0, 200 * MB), (0, 0), dirty=0)
    assert book.foreign_written == 0


def test_what_others_write_beside_it_is_not() -> None:
    book = ledger()
    book.take((0, 0), (0, 100 * MB), dirty=100 * MB)
    book.take((0, 100 * MB + 400 * MB), (0, 0), dirty=0)
    assert book.foreign_written == pytest.approx(395 * MB, rel=0.01)


def test_pages_that_were_overwritten_or_dropped_hide_no_later_writes_of_others() -> None:
    book = ledger()
    # The same 10 MB, written a hundred times, and then removed.
    book.take((0, 0), (0, 1000 * MB), dirty=10 * MB)
    book.take((0, 0), (0, 0), dirty=0)
    book.take((0, 600 * MB), (0, 0), dirty=0)
    assert book.foreign_written == 600 * MB


def test_reads_in_flight_at_a_look_are_ours_and_others_are_seen() -> None:
    book = ledger()
    book.take((90 * MB, 0), (100 * MB, 0), dirty=0)
    book.take((10 * MB, 0), (0, 0), dirty=0)
    assert book.foreign_read == 0
    book.take((300 * MB, 0), (100 * MB, 0), dirty=0)
    assert book.foreign_read == pytest.approx(195 * MB)


def test_the_journal_of_a_file_system_is_no_disturber() -> None:
    book = ledger()
    for _ in range(10):
        book.take((0, 104 * MB), (0, 100 * MB), dirty=0)
    assert book.foreign_written == 0


def test_without_a_figure_of_dirty_pages_nothing_is_blamed_on_others_too_early() -> None:
    book = ledger()
    book.take((0, 0), (0, 500 * MB), dirty=None)
    book.take((0, 500 * MB), (0, 0), dirty=None)
    assert book.foreign_written == 0
