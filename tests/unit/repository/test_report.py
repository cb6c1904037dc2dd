"""A report is as long as somebody can read, however many and long the names are that users give."""

from __future__ import annotations

import ast
import importlib
import os
import re
from pathlib import Path

import gridwright
from gridwright.repository.scan import scan
from gridwright.repository.settings import RepositoryReport
from tests.support.repositories import opened_without_store

SOURCE = Path(gridwright.__file__).parent


def test_many_problems_with_long_names_are_a_short_report() -> None:
    report = RepositoryReport("archive", "export")
    for number in range(12_545):
        report.problem(b"d" * 4000 + str(number).encode(), "its key is too long")
    text = report.text()
    assert "could not be done: 12545" in text
    assert "and 12,345 more" in text
    assert len(text) < 100_000
    document = report.document()
    assert (len(document["problems"]), document["failed"]["count"]) == (200, 12_545)
    assert len(str(document)) < 2_000_000


def test_the_directory_that_holds_most_of_them_is_told_and_memory_is_bounded() -> None:
    """A user makes a million names that no object can have, in as many directories as he likes."""
    report = RepositoryReport("archive", "export")
    report.problem(b"home/anna/rows", "it cannot be read: Permission denied")
    for number in range(30_000):
        report.problem(b"home/mallory/%d/rows" % number, "it cannot be read: Permission denied")
        report.problem(b"%d/x/rows" % number, "it cannot be read: Permission denied")
    assert "home/mallory (30,000)" in report.text()
    assert len(report.failed.directories) < 2_000
    assert (len(report.problems), report.failed.count, report.is_complete) == (200, 60_001, False)


def test_names_that_no_object_can_have_are_counted_beside_the_work(tmp_path: Path) -> None:
    library = tmp_path / "library"
    deep = library.joinpath("home/mallory", *["d" * 250] * 4)
    deep.mkdir(parents=True)
    for number in range(300):
        (deep / f"{'x' * 100}{number}").touch()
    (library / "rows").write_text("rows")
    opened = opened_without_store(library)
    report = RepositoryReport("archive", "export")
    try:
        scan(opened, [], report)
        work = {path for path, *_ in opened.known.work()}
    finally:
        opened.close()
    assert b"rows" in work
    assert not [path for path in work if len(path) > 1024]
    assert (report.is_complete, report.nameless.count) == (True, 300)
    assert "left out, 300 names that no object can have, below home/mallory (300): " in report.text()


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


def test_notes_of_several_files_are_true_of_one() -> None:
    """Its first verb alone follows the number: `1 file is gone …, and are forgotten` was printed once."""
    phrases = []
    for source in (SOURCE / "repository").rglob("*.py"):
        name = ".".join(source.relative_to(SOURCE.parent).with_suffix("").parts)
        for call in ast.walk(ast.parse(source.read_text("utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "note_of":
                what = call.args[0]
                if isinstance(what, ast.Name):
                    phrases.append(getattr(importlib.import_module(name), what.id, ""))
                else:
                    texts = (each.value for each in ast.walk(what) if isinstance(each, ast.Constant))
                    phrases.append("".join(map(str, texts)))
    assert len(phrases) > 20
    several = [
        each
        for each in phrases
        if re.search(r"^\S+ .*(and|they|but) (are|were|have)\b|\b(they|their)\b", each)
    ]
    assert several == []
