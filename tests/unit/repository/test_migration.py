"""A migration makes the library what the source is, and touches nothing of others."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.repository.content import Torn
from gridwright.repository.migration import copying
from gridwright.repository.migration.copying import Bandwidth
from gridwright.repository.migration.journal import MigrationJournal
from gridwright.repository.migration.migrate import MigrationOptions
from gridwright.repository.migration.session import MigrationPlaces, migrate
from gridwright.repository.settings import RepositoryReport
from gridwright.repository.trash import TRASHES, Trash, moment_name
from tests.support.trees import tree_of, untouched

NAMES = st.sampled_from(["a", "b", "\udcff\n", "-rf", "\u00e9"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
FIRST_ACTS = ("file", "large", "sparse", "directory", "link", "hard", "pipe")
ACTS = st.sampled_from((*FIRST_ACTS, "chmod", "own", "remove", "rename", "touch", "xattr"))
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Each run waits until the disk has all: hundreds of runs wait long."""
CHANGES = st.lists(st.tuples(ACTS, PATHS, PATHS, st.integers(0, 3)), max_size=25)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "old").mkdir()
    return tmp_path / "old"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "new").mkdir()
    return tmp_path / "new"


def moved(source: Path, library: Path, **options: object) -> RepositoryReport:
    return migrate(MigrationPlaces("data", source, library), MigrationOptions(**options))  # type: ignore[arg-type]


def change(act: str, path: Path, other: Path, number: int) -> None:  # noqa: PLR0912 - a list of acts
    """One thing that somebody does in a tree; what cannot be done is not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_fifo():
        # To write to it waits for a reader.
        path.unlink()
    if act in ("file", "large"):
        path.write_bytes(b"%d " % number * (1 if act == "file" else 50_000))
    elif act == "sparse":
        with path.open("wb") as file:
            file.truncate(300_000)
            file.seek(number * 70_000)
            file.write(b"within")
    elif act == "directory":
        path.mkdir()
    elif act == "link":
        path.symlink_to(other)
    elif act == "hard":
        path.hardlink_to(other)
    elif act == "pipe":
        os.mkfifo(path)
    elif act == "chmod":
        path.chmod(0o4000 * (number % 2) | 0o700 | number)
    elif act == "own" and os.geteuid() == 0:
        os.chown(path, number, number + 1, follow_symlinks=False)
    elif act == "remove":
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    elif act == "rename":
        path.rename(other)
    elif act == "touch":
        # Also back to a time that the file had before, as archivers do.
        os.utime(path, ns=(number, number * 10**9 + 1), follow_symlinks=False)
    elif act == "xattr":
        os.setxattr(path, f"user.{number}", b"\0\xff", follow_symlinks=False)


def apply(root: Path, changes: list[tuple[str, str, str, int]]) -> None:
    for act, path, other, number in changes:
        with contextlib.suppress(OSError):
            change(act, root / path, root / other, number)


@settings(max_examples=40)
@given(CHANGES, CHANGES)
def test_the_library_is_what_the_source_is(first: list, second: list) -> None:  # type: ignore[type-arg]
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        source, library = Path(place) / "old", Path(place) / "new"
        source.mkdir()
        library.mkdir()
        apply(source, first)
        before = untouched(source)
        assert moved(source, library, verify=True).problems == []
        assert untouched(source) == before
        assert tree_of(library) == tree_of(source)
        apply(source, second)
        assert moved(source, library, cut_over=True, delete_up_to=999).problems == []
        assert tree_of(library) == tree_of(source)
        again = moved(source, library, cut_over=True, verify=True)
        assert again.done.keys() <= {"unchanged", "verified"} and not again.problems


def test_holes_stay_holes(source: Path, library: Path) -> None:
    with (source / "rows").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(500 << 20)
        file.write(b"x")
    moved(source, library)
    assert (library / "rows").stat().st_size == 1 << 30
    assert (library / "rows").stat().st_blocks * 512 < 1 << 20


def test_what_others_made_or_changed_stays(source: Path, library: Path) -> None:
    for name in ("theirs", "changed here", "changed twice", "vanishes", "vanishes changed", "alike"):
        (source / name).write_text(f"{name} at the source")
    (library / "theirs").write_text("something else")
    shutil.copy2(source / "alike", library / "alike")
    report = moved(source, library)
    assert [name for name, _ in report.problems] == ["theirs"]
    for name in ("changed here", "changed twice", "vanishes changed"):
        (library / name).write_text("here")
    (source / "changed twice").write_text("changed at the source")
    for name in ("vanishes", "vanishes changed", "alike"):
        (source / name).unlink()
    (library / "own").mkdir()
    report = moved(source, library, cut_over=True)
    assert sorted(name for name, _ in report.problems) == ["changed twice", "theirs"]
    assert {each.name: each.read_text() for each in library.iterdir() if each.is_file()} == {
        "theirs": "something else",
        "changed here": "here",
        "changed twice": "here",
        "vanishes changed": "here",
        "alike": "alike at the source",
    }
    assert (library / "own").is_dir()


def test_nothing_vanishes_without_the_option(source: Path, library: Path) -> None:
    (source / "rows").touch()
    moved(source, library)
    (source / "rows").unlink()
    moved(source, library)
    assert (library / "rows").exists()


def test_a_directory_that_a_killed_run_made_is_of_the_migration(
    source: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "day").mkdir()

    def killed(_self: MigrationJournal, _row: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(MigrationJournal, "end", killed)
        moved(source, library)
    assert (library / "day").is_dir()
    moved(source, library)
    (source / "day").rmdir()
    moved(source, library, cut_over=True, delete_up_to=1)
    assert not (library / "day").exists()


def test_a_dry_run_makes_nothing(source: Path, library: Path) -> None:
    (source / "day").mkdir()
    (source / "day" / "rows").write_bytes(bytes(5000))
    report = moved(source, library, dry_run=True)
    assert (report.done["copied"].count, report.done["copied"].bytes) == (2, 5000)
    assert "would be copied: 1 file, 1 directory (4.88 KiB)" in report.text()
    assert re.search(r"time: at least [0-9.]+ s, with 1 file \(4.88 KiB\) of the source read", report.text())
    assert list(library.iterdir()) == []


def test_a_source_that_is_not_mounted_removes_nothing(source: Path, library: Path) -> None:
    (source / "rows").touch()
    moved(source, library)
    source.rename(source.with_name("mounted elsewhere"))
    source.mkdir()
    with pytest.raises(GridwrightError, match="its root is another one"):
        moved(source, library, cut_over=True)
    assert (library / "rows").exists()


def test_a_source_within_the_library_is_refused(library: Path) -> None:
    (library / "old").mkdir()
    with pytest.raises(GridwrightError, match="lie within each other"):
        moved(library / "old", library)
    with pytest.raises(GridwrightError, match="lie within each other"):
        moved(library, library / "old")


def test_a_file_that_never_holds_still_is_named_and_not_halved(
    source: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "log").write_bytes(b"line\n")
    real = copying.Copier.chunks

    def growing(self: copying.Copier, path: bytes, *rest: int, **more: bool) -> object:
        yield from real(self, path, *rest, **more)
        with (source / "log").open("ab") as file:
            file.write(b"line\n")

    monkeypatch.setattr(copying.Copier, "chunks", growing)
    report = moved(source, library)
    assert report.problems == [("log", "it changed each of the 3 times that it was read; it was not copied")]
    assert list(library.iterdir()) == []


def test_writing_during_the_last_pass_is_told(
    source: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "first").touch()
    real = copying.Copier.copy

    def late(self: copying.Copier, path: bytes, *, there: os.stat_result | None, within: int) -> object:
        found = real(self, path, there=there, within=within)
        (source / "late").touch()
        return found

    monkeypatch.setattr(copying.Copier, "copy", late)
    report = moved(source, library, cut_over=True)
    assert report.problems == [("late", "the source was written to during the last pass")]


def test_a_copy_that_is_wrong_is_found(source: Path, library: Path) -> None:
    (source / "rows").write_bytes(b"right")
    moved(source, library)
    status = (library / "rows").stat()
    (library / "rows").write_bytes(b"wrong")
    os.utime(library / "rows", ns=(status.st_atime_ns, status.st_mtime_ns))
    report = moved(source, library, verify=True)
    assert report.problems == [("rows", "its content is not that of the source")]


def test_what_a_copy_has_in_a_hole_of_the_source_is_found(source: Path, library: Path) -> None:
    with (source / "rows").open("wb") as file:
        file.truncate(1 << 30)
    moved(source, library)
    status = (library / "rows").stat()
    with (library / "rows").open("r+b") as file:
        file.seek(700 << 20)
        file.write(b"x")
    os.utime(library / "rows", ns=(status.st_atime_ns, status.st_mtime_ns))
    report = moved(source, library, verify=True)
    assert report.problems == [("rows", "its content is not that of the source")]


def test_a_source_that_hangs_ends_the_command(
    source: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "rows").touch()
    answers = threading.Event()

    def hang(_path: bytes, _directory: int) -> int:
        answers.wait()
        raise Torn

    monkeypatch.setattr(copying, "open_for_reading", hang)
    try:
        with pytest.raises(GridwrightError, match="has not answered for 0 s, at 'rows'"):
            migrate(MigrationPlaces("data", source, library, patience_s=0.3), MigrationOptions())
    finally:
        answers.set()


def test_bandwidth_is_shared() -> None:
    class Waited(threading.Event):
        spans: list[float]

        def wait(self, timeout: float | None = None) -> bool:
            self.spans.append(timeout or 0.0)
            return False

    stop = Waited()
    stop.spans = []
    bandwidth = Bandwidth(1000, stop)
    for _ in range(4):
        bandwidth.wait(500_000)
    assert [round(span / 100) for span in stop.spans] == [0, 5, 10, 15]


def test_flags_of_buckets_and_of_migrations_are_told_apart(source: Path, library: Path) -> None:
    """All that do not go together, in one answer, and nothing is made."""
    from typer.testing import CliRunner

    from gridwright.cli.data.repo import repo

    def said(*words: str) -> str:
        done = CliRunner().invoke(repo, ["import", "--directory", str(library), *words])
        assert isinstance(done.exception, GridwrightError)
        return str(done.exception)

    with_bucket = said("--from", str(source), "--contents", "--bucket", "s3://site-sas")
    assert "--contents" in with_bucket and "--bucket" in with_bucket
    without_source = said("--bucket", "s3://site-sas", "--cut-over", "--bandwidth", "1MB/s")
    assert "--cut-over" in without_source and "--bandwidth" in without_source
    assert list(library.iterdir()) == []


def test_a_file_takes_the_place_of_a_directory_at_the_cut_over(source: Path, library: Path) -> None:
    (source / "a").mkdir()
    (source / "a/within").write_bytes(b"old")
    moved(source, library)
    shutil.rmtree(source / "a")
    (source / "a").write_bytes(b"new")
    assert [path for path, _ in moved(source, library).problems] == ["a"]
    assert moved(source, library, cut_over=True).problems == []
    assert (library / "a").read_bytes() == b"new"


def test_a_directory_that_holds_files_of_others_stays_at_the_cut_over(source: Path, library: Path) -> None:
    (source / "a").mkdir()
    moved(source, library)
    (library / "a/theirs").write_bytes(b"theirs")
    (source / "a").rmdir()
    (source / "a").write_bytes(b"new")
    assert [path for path, _ in moved(source, library, cut_over=True).problems] == ["a"]
    assert (library / "a/theirs").read_bytes() == b"theirs"


def test_another_name_takes_the_place_of_a_directory_at_the_cut_over(source: Path, library: Path) -> None:
    (source / "a").mkdir()
    (source / "a/within").write_bytes(b"old")
    (source / "file").write_bytes(b"file")
    moved(source, library)
    shutil.rmtree(source / "a")
    (source / "a").hardlink_to(source / "file")
    report = moved(source, library)
    assert [(name, "--cut-over" in why) for name, why in report.problems] == [("a", True)]
    assert moved(source, library, cut_over=True).problems == []
    assert (library / "a").samefile(library / "file")


def test_another_name_comes_after_a_directory_in_the_place_of_a_third(source: Path, library: Path) -> None:
    """The directory takes its place while others share the trash."""
    (source / "a").mkdir()
    (source / "first").write_bytes(b"one file")
    (source / "a/second").hardlink_to(source / "first")
    (source / "other").write_bytes(b"another file")
    for name in ("a/third", "changed"):
        (source / name).write_bytes(b"before")
    moved(source, library)
    (source / "changed").write_bytes(b"by now")
    (source / "a/second").unlink()
    (source / "a/second").mkdir()
    (source / "a/second/within").write_bytes(b"within")
    (source / "a/third").unlink()
    (source / "a/third").hardlink_to(source / "other")
    assert moved(source, library).problems == []
    assert (library / "a/third").samefile(library / "other")
    assert (library / "a/second/within").read_bytes() == b"within"


def test_a_file_that_is_here_is_not_copied_once_more_for_another_name(source: Path, library: Path) -> None:
    """Whichever name a walk meets first."""
    (source / "m").write_bytes(b"content")
    moved(source, library)
    before = (library / "m").stat().st_ino
    for name in (names := "abcdefghxyz"):
        (source / name).hardlink_to(source / "m")
    report = moved(source, library)
    assert (report.count("copied").count, report.count("linked").count) == (0, len(names))
    assert {each.stat().st_ino for each in library.iterdir()} == {before}


def test_a_file_is_copied_under_the_name_that_is_free(source: Path, library: Path) -> None:
    (source / "free").write_bytes(b"of the source")
    for name in (taken := "abcdexyz"):
        (source / name).hardlink_to(source / "free")
        (library / name).write_bytes(b"of the library")
    report = moved(source, library)
    assert sorted(name for name, _ in report.problems) == list(taken)
    assert (library / "free").read_bytes() == b"of the source"
    assert {(library / name).read_bytes() for name in taken} == {b"of the library"}


def test_names_of_one_file_are_replaced_by_files_of_their_own(source: Path, library: Path) -> None:
    names = [f"name{number}" for number in range(12)]
    (source / names[0]).write_bytes(b"one")
    for name in names[1:]:
        (source / name).hardlink_to(source / names[0])
    moved(source, library)
    for name in names:
        (source / name).unlink()
        (source / name).write_bytes(name.encode())
    assert moved(source, library).problems == []
    assert [(library / name).read_bytes() for name in names] == [name.encode() for name in names]


def test_a_dry_run_names_a_directory_that_would_stay_closed(source: Path, library: Path) -> None:
    for name in ("whole", "not"):
        (source / name).mkdir()
        (source / name / "file").write_bytes(b"content")
    moved(source, library)
    for name in ("whole", "not"):
        (source / name).rename(source.parent / f"{name} before")
        (source / name).mkdir()
        (source / name / "new").write_bytes(b"new")
    (source / "whole/file").write_bytes(b"new")
    plan = moved(source, library, dry_run=True)
    done = moved(source, library)
    assert [name for name, _ in plan.problems] == ["not"]
    assert (plan.problems, plan.document()["done"]) == (done.problems, done.document()["done"])


def test_deletions_are_a_share_of_what_was_known_before(source: Path, library: Path) -> None:
    for number in range(60):
        (source / f"old{number}").write_bytes(b"old")
    moved(source, library)
    for number in range(11):
        (source / f"old{number}").unlink()
    for number in range(60):
        (source / f"new{number}").write_bytes(b"new")
    reports = [moved(source, library, cut_over=True, dry_run=looks) for looks in (True, False)]
    assert [[why[:12] for _, why in each.problems] for each in reports] == [["11 of 60 wou"]] * 2


def test_what_was_a_file_and_a_directory_within_a_second_lies_in_the_trash(library: Path) -> None:
    root = os.open(library, os.O_RDONLY)
    try:
        (library / "a").write_bytes(b"a file")
        os.close(Trash(root, moment := moment_name()).take(root, b"a", b"a")[0])
        (library / "a").mkdir()
        (library / "a/b").write_bytes(b"within a directory")
        os.close(Trash(root, moment).take(root, b"a/b", b"a/b")[0])
    finally:
        os.close(root)
    lying = (library / TRASHES).rglob("*")
    assert sorted(each.read_bytes() for each in lying if each.is_file()) == [b"a file", b"within a directory"]


@pytest.mark.parametrize("moment", ["2400-01-01T00:00:00Z", "1600-01-01T00:00:00Z"])
def test_a_file_of_another_age_ends_no_migration(source: Path, library: Path, moment: str) -> None:
    """SQLite has no time beyond the year 2262, and file systems have."""
    for name in ("bad", "good"):
        (source / name).write_text("content")
    (source / "directory").mkdir()
    for name in ("bad", "directory"):
        subprocess.run(["touch", "-d", moment, source / name], check=True, timeout=10)
    for _ in range(2):
        report = moved(source, library)
        assert report.problems == []
        assert (library / "bad").stat().st_mtime_ns == (source / "bad").stat().st_mtime_ns
        assert (library / "good").read_text() == "content"
    assert "copied" not in report.done
