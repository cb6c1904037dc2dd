"""A runs directory on a disk that is full: what was there stays whole, and no scraps are left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.atomic import write_atomically
from gridwright.runs.directory import load_run
from tests.support.command import Command
from tests.support.disks import other_mount
from tests.support.records import finished_run

pytestmark = pytest.mark.root


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with other_mount(tmp_path / "small", "tmpfs", "size=1M") as mount_point:
        yield mount_point


def fill(directory: Path) -> None:
    with (directory / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass


def test_a_full_disk_keeps_the_old_file_and_no_scraps(small: Path) -> None:
    file = small / "run.json"
    write_atomically(file, "old")
    fill(small)
    with pytest.raises(OSError, match="No space"):
        write_atomically(file, "new" * 10_000)
    assert file.read_text() == "old"
    assert sorted(path.name for path in small.iterdir()) == ["filler", "run.json"]


def test_a_report_that_finds_no_space_keeps_the_old_one(gridwright: Command, small: Path) -> None:
    run = finished_run(small)
    (run / "report.html").write_text("old")
    fill(small)
    before = sorted(path.name for path in run.iterdir())
    ended = gridwright("report", run)
    assert ended.status == 3
    assert f"{run}/report.html: the report cannot be written: No space left" in ended.text
    assert "--out" in ended.text
    assert (run / "report.html").read_text() == "old"
    assert sorted(path.name for path in run.iterdir()) == before


def test_no_test_begins_without_a_place_for_its_run(gridwright: Command, library: Path, small: Path) -> None:
    fill(small)
    ended = gridwright("iotest", "--directory", library, "--runs", small / "runs", "--size", "1MiB")
    assert ended.status == 3
    assert "No space left" in ended.text
    assert "--runs DIR" in ended.text
    assert list(library.iterdir()) == []


def test_a_journal_that_cannot_be_written_ends_the_test_and_keeps_the_rest(
    gridwright: Command, library: Path, small: Path
) -> None:
    flags = ("--phases", "write,read", "--seconds", "3", "--streams", "1", "--json")
    with gridwright.start("iotest", "--directory", library, "--runs", small, *flags) as running:
        running.says("directory: write (")
        fill(small)
        # The journal's last page takes a few more lines; then there is none.
        (run,) = small.glob("*/run.json")
        with (run.parent / "journal.jsonl").open("ab") as journal:
            room = -os.fstat(journal.fileno()).st_size % 4096
            journal.write(b"{}\n" * (room // 3))
        ended = running.end()
    assert ended.status == 3, ended.err
    assert "journal.jsonl: the run's journal cannot be written: No space left" in ended.text
    assert ended.json["ok"] is False
    assert list(library.iterdir()) == []
    loaded = load_run(run.parent)
    assert loaded.run.status == "interrupted"
    assert loaded.iotest is not None
    assert loaded.iotest.libraries[0].path == str(library)
