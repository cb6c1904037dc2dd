"""A report is as long as somebody can read, however many and long the names are that users give."""

from __future__ import annotations

import os
from pathlib import Path

from gridwright.repository.scan import scan
from gridwright.repository.settings import RepositoryReport
from tests.support.repositories import opened_without_store


def test_many_problems_with_long_names_are_a_short_report() -> None:
    report = RepositoryReport("archive", "export")
    for number in range(12_545):
        report.problem(b"d" * 4000 + str(number).encode(), "its key is too long")
    text = report.text()
    assert "could not be done: 12545" in text
    assert "and 12,345 more" in text
    assert len(text) < 100_000
    assert len(report.document()["problems"]) == 12_545


def test_many_pipes_are_one_note(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    for number in range(300):
        os.mkfifo(library / f"pipe{number}")
    opened = opened_without_store(library)
    report = RepositoryReport("archive", "export")
    try:
        scan(opened, [], report)
    finally:
        opened.close()
    (note,) = report.all_notes
    assert note.startswith("300 files have no object, since each is a pipe: pipe")
