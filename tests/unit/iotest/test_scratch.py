"""The directory that iotest works in: made, marked, kept or removed; nothing else is touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gridwright.iotest.scratch import MARKER, PREFIX, FileSet, Scratch, leftovers, remove_stale

KEPT = FileSet(seed=7, block_bytes=65536, file_bytes=(131072, 65536))


def dead_process() -> dict[str, Any]:
    """The facts of a process that is gone."""
    imports = "import json; from gridwright.runs.worker_process import process_facts"
    code = f"{imports}; print(json.dumps(process_facts()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def mark(directory: Path, **own: Any) -> None:
    """Rewrite a marker as another process would have written it."""
    marker = json.loads((directory / MARKER).read_text())
    (directory / MARKER).write_text(json.dumps(marker | own))


@pytest.fixture
def left(library: Path) -> Path:
    """A directory that a killed test left, with a file in it."""
    scratch = Scratch.create(library)
    (scratch.directory / "stream-0.dat").write_bytes(b"x" * 1000)
    mark(scratch.directory, process=dead_process())
    return scratch.directory


def test_it_is_fresh_private_and_marked(library: Path) -> None:
    one, other = Scratch.create(library), Scratch.create(library)
    assert one.directory != other.directory
    assert one.directory.parent == library
    assert one.directory.name.startswith(PREFIX)
    assert one.directory.stat().st_mode & 0o777 == 0o711, "nobody else can list it"
    assert json.loads((one.directory / MARKER).read_text())["process"]["pid"] == os.getpid()


def test_removing_leaves_nothing_and_tells_how_it_goes_on(library: Path) -> None:
    scratch = Scratch.create(library)
    for number in range(3):
        (scratch.directory / f"stream-{number}.dat").write_bytes(b"x")
    small = scratch.directory / "metadata-0"
    small.mkdir()
    (small / "f0").write_bytes(b"x")
    beats: list[int] = []
    scratch.remove(lambda: beats.append(1))
    assert list(library.iterdir()) == []
    assert beats


def test_removing_twice_is_no_error(library: Path) -> None:
    scratch = Scratch.create(library)
    scratch.remove(lambda: None)
    scratch.remove(lambda: None)


def test_a_directory_that_took_its_place_is_not_removed(library: Path) -> None:
    scratch = Scratch.create(library)
    scratch.directory.rename(library / "moved")
    scratch.directory.mkdir()
    (scratch.directory / "stream-0.dat").write_text("someone else's")
    scratch.remove(lambda: None)
    assert (scratch.directory / "stream-0.dat").read_text() == "someone else's"


def test_a_link_that_took_its_place_is_not_followed(library: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "stream-0.dat").write_text("mine")
    scratch = Scratch.create(library)
    scratch.directory.rename(library / "moved")
    scratch.directory.symlink_to(precious)
    scratch.remove(lambda: None)
    assert (precious / "stream-0.dat").read_text() == "mine"


def test_links_inside_are_removed_and_what_they_point_to_stays(library: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    scratch = Scratch.create(library)
    (scratch.directory / "link").symlink_to(precious)
    (scratch.directory / "link.dat").symlink_to(precious / "file")
    scratch.remove(lambda: None)
    assert list(library.iterdir()) == []
    assert (precious / "file").read_text() == "mine"


def test_what_a_killed_test_left_is_removed(library: Path, left: Path) -> None:
    (found,) = remove_stale(library)
    assert found.directory == left
    assert found.bytes >= 1000
    assert list(library.iterdir()) == []


def test_what_a_running_test_uses_stays(library: Path) -> None:
    scratch = Scratch.create(library)
    assert remove_stale(library) == []
    (found,) = leftovers(library)
    assert (found.directory, found.stale, found.kept) == (scratch.directory, False, None)


def test_what_was_kept_stays_though_its_process_is_gone(library: Path) -> None:
    scratch = Scratch.create(library)
    scratch.retain(KEPT)
    mark(scratch.directory, process=dead_process())
    assert remove_stale(library) == []
    (found,) = leftovers(library)
    assert found.kept == KEPT


def test_the_newest_kept_set_comes_first(library: Path) -> None:
    directories = []
    for number in range(3):
        scratch = Scratch.create(library)
        scratch.retain(FileSet(number, 4096, (4096,)))
        os.utime(scratch.directory / MARKER, (1000 + number, 1000 + number))
        directories.append(scratch.directory)
    assert [left.directory for left in leftovers(library)] == directories[::-1]


@pytest.mark.parametrize(
    "process",
    [
        {"host": "another-host", "boot_id": "x", "pid": 1, "started": 1.0},
        {"host": "yet-another", "boot_id": "y", "pid": 999999, "started": 2.0},
    ],
)
def test_a_directory_of_another_host_is_left_alone(
    library: Path, left: Path, process: dict[str, Any]
) -> None:
    mark(left, process=process)
    assert remove_stale(library) == []
    assert left.exists()


@pytest.mark.parametrize(
    "marker",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        '{"process": {}, "kept": false}',
        '{"process": 3, "kept": false, "files": null}',
    ],
)
def test_a_marker_that_is_not_ours_protects_its_directory(library: Path, left: Path, marker: str) -> None:
    (left / MARKER).write_text(marker)
    assert remove_stale(library) == []
    assert left.exists()


def test_what_only_has_the_name_is_not_touched(library: Path, left: Path, tmp_path: Path) -> None:
    (library / f"{PREFIX}x").mkdir()
    (library / f"{PREFIX}x" / "file").write_text("foreign")
    (library / f"{PREFIX}file").write_text("a file")
    elsewhere = tmp_path / "elsewhere"
    left.rename(elsewhere)
    (library / f"{PREFIX}link").symlink_to(elsewhere)
    (library / f"{PREFIX}dangling").symlink_to(tmp_path / "nothing")
    before = sorted(path.name for path in library.iterdir())
    assert remove_stale(library) == []
    assert sorted(path.name for path in library.iterdir()) == before
    assert (elsewhere / MARKER).exists()


def test_a_failure_to_mark_leaves_no_directory(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gridwright.iotest.scratch.write_atomically", full)
    with pytest.raises(OSError, match="No space"):
        Scratch.create(library)
    assert list(library.iterdir()) == []
