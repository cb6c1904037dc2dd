"""Nothing of a test stays in the library, and nothing else there is touched."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest

from gridwright.iotest.scratch import MARKER, PREFIX
from tests.support.command import Command, wait_until

QUICK = ("--size", "1MiB", "--phases", "write")
LONG = ("--seconds", "60", "--phases", "write", "--streams", "1")


def gone(process: psutil.Process) -> None:
    wait_until(
        lambda: True if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE else None,
        seconds=20,
        what="the end of the worker",
        last=lambda: process.status() if process.is_running() else "gone",
    )


def empty(library: Path) -> None:
    wait_until(
        lambda: True if not list(library.iterdir()) else None,
        seconds=20,
        what="an empty library",
        last=lambda: list(library.rglob("*")),
    )


def test_a_killed_command_takes_its_worker_and_its_files_along(gridwright: Command, library: Path) -> None:
    with gridwright.start("iotest", "--directory", library, *LONG) as running:
        running.says("directory: write (1 streams)")
        worker = running.worker()
        running.signal(signal.SIGKILL)
        running.process.wait(10)
        gone(worker)
        empty(library)


def test_a_killed_worker_is_reported_and_its_files_are_removed(gridwright: Command, library: Path) -> None:
    with gridwright.start("iotest", "--directory", library, *LONG, "--json") as running:
        running.says("directory: write (1 streams)")
        running.worker().kill()
        ended = running.end()
    assert ended.status == 3
    assert "library directory: its worker was killed by SIGKILL" in ended.text
    assert str(library) in ended.text
    assert ended.json["status"] == "failed"
    assert [phase["status"] for phase in ended.json["libraries"][0]["phases"]] == ["failed"]
    assert list(library.iterdir()) == []


def test_what_both_left_is_removed_by_the_next_run(gridwright: Command, library: Path) -> None:
    with gridwright.start("iotest", "--directory", library, *LONG) as running:
        running.says("directory: write (1 streams)")
        worker = running.worker()
        worker.suspend()
        running.signal(signal.SIGKILL)
        running.process.wait(10)
        worker.kill()
        gone(worker)
    (stale,) = library.iterdir()
    assert stale.name.startswith(PREFIX)
    ended = gridwright("iotest", "--directory", library, *QUICK, "--json")
    assert ended.status == 0, ended.err
    assert list(library.iterdir()) == []
    (finding,) = ended.findings
    assert finding["name"] == "stale-removed"
    assert str(stale) in finding["text"]


def test_two_tests_of_one_library_leave_each_other_alone(gridwright: Command, library: Path) -> None:
    with gridwright.start("iotest", "--directory", library, *LONG) as running:
        running.says("directory: write (1 streams)")
        wait_until(
            lambda: next(library.glob(f"{PREFIX}*/stream-0.dat"), None), seconds=20, what="a file", last=str
        )
        (scratch,) = library.iterdir()
        ended = gridwright("iotest", "--directory", library, *QUICK)
        assert ended.status == 0, ended.err
        assert list(library.iterdir()) == [scratch]
        assert (scratch / "stream-0.dat").exists()
        running.signal(signal.SIGTERM)
        assert running.end().status == 130
    assert list(library.iterdir()) == []


def test_nothing_that_is_not_ours_is_touched(gridwright: Command, library: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / MARKER).write_text("mine")
    foreign = library / f"{PREFIX}x"
    foreign.mkdir()
    (foreign / "stream-0.dat").write_text("foreign")
    (library / f"{PREFIX}link").symlink_to(precious)
    (library / f"{PREFIX}file").write_text("a file")
    (library / "tables.sas7bdat").write_text("data")
    other_host = library / f"{PREFIX}0123456789ab"
    other_host.mkdir()
    marker = {
        "process": {"host": "node-17", "boot_id": "x", "pid": 1, "started": 1.0},
        "kept": False,
        "files": None,
    }
    (other_host / MARKER).write_text(json.dumps(marker))
    odd = library / f"{PREFIX}odd"
    odd.mkdir()
    (odd / MARKER).write_text('{"process": 3, "kept": true, "files": []}')
    before = sorted(str(path) for path in library.rglob("*"))
    ended = gridwright("iotest", "--directory", library, *QUICK, "--json")
    assert ended.status == 0, ended.err
    assert ended.findings == []
    assert sorted(str(path) for path in library.rglob("*")) == before
    assert (foreign / "stream-0.dat").read_text() == "foreign"
    assert (precious / MARKER).read_text() == "mine"


@pytest.mark.parametrize("name", ["a 'quoted\" grün", "-new\nline"])
def test_a_directory_of_any_name_can_be_tested(gridwright: Command, tmp_path: Path, name: str) -> None:
    library = tmp_path / name
    library.mkdir()
    ended = gridwright("iotest", "--directory", library, *QUICK, "--json")
    assert ended.status == 0, ended.err
    assert ended.json["libraries"][0]["path"] == str(library)
    assert list(library.iterdir()) == []
