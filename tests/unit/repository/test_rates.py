"""How long a command takes at least is told by what commands before it did alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.repository.importing import REMOVED
from gridwright.repository.scan import Action
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.status import best_limits, estimate, note_rate
from tests.support.repositories import opened_without_store

SENT = Action.SEND.value


@pytest.fixture
def opened(tmp_path: Path) -> OpenRepository:
    return opened_without_store(tmp_path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("gridwright.repository.settings.time.monotonic", lambda: now[0])
    return now


def ran(opened: OpenRepository, clock: list[float], seconds: float, **done: tuple[int, int]) -> None:
    """An export that began its work 60 s after it was called, and has done so many of so many bytes each."""
    report = RepositoryReport("archive", "export")
    clock[0] += 60
    report.begin()
    clock[0] += seconds
    for kind, (count, size) in done.items():
        for _ in range(count):
            report.add(kind, size)
    clock[0] += 60
    note_rate(opened, report)


def told(opened: OpenRepository, **done: tuple[int, int]) -> float | None:
    report = RepositoryReport("archive", "export", is_dry_run=True)
    for kind, (count, size) in done.items():
        for _ in range(count):
            report.add(kind, size)
    estimate(opened, report)
    return report.at_least_s


def test_work_alone_counts_and_not_what_comes_before_it(opened: OpenRepository, clock: list[float]) -> None:
    assert told(opened, sent=(10, 1)) is None
    assert told(opened) == 0.0
    ran(opened, clock, 2.0, sent=(100, 10))
    assert told(opened, sent=(300, 10)) == pytest.approx(6.0)


def test_a_rename_takes_its_time_whatever_its_size(opened: OpenRepository, clock: list[float]) -> None:
    ran(opened, clock, 1.0, sent=(100, 10))
    assert told(opened, **{REMOVED: (5, 1_000_000)}) is None
    ran(opened, clock, 1.0, **{REMOVED: (150, 3)})
    assert told(opened, **{REMOVED: (300, 1_000_000)}) == pytest.approx(2.0)
    # It was one of a few things that were done: nothing says how long it takes.
    ran(opened, clock, 1.0, sent=(500, 10), **{Action.RENAME: (100, 0)})
    assert told(opened, **{Action.RENAME: (500, 0)}) is None


def test_larger_files_are_told_by_no_bytes_of_small_ones(opened: OpenRepository, clock: list[float]) -> None:
    ran(opened, clock, 1.0, sent=(100, 10))
    assert told(opened, sent=(10, 1_000_000)) == pytest.approx(0.1)
    assert told(opened, sent=(1000, 5)) == pytest.approx(5.0)
    assert not best_limits(opened.known, "export", 1000.0)
    assert best_limits(opened.known, "export", 10.0)[0].bytes_per_s == pytest.approx(1000.0)
