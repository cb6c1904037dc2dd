"""The source of a migration, where a user exchanges directories or mounts a file system of his meanwhile."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gridwright.beneath import remove_tree
from gridwright.repository.migration.migrate import MigrationOptions
from gridwright.repository.migration.session import MigrationPlaces, migrate
from gridwright.repository.settings import RepositoryReport
from gridwright.repository.walking import walk_below
from tests.support.as_user import ALICE, MALLORY, as_user, exchange, open_to_all
from tests.support.disks import leave_mounts_of_others, mount_memory
from tests.unit.test_beneath import deep

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="other users' ids take root")

WALK = "gridwright.repository.migration.migrate.walk_below"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    open_to_all(tmp_path)
    for name in ("old", "new"):
        (tmp_path / name).mkdir(mode=0o755)
    return tmp_path


def moved(place: Path, **options: bool) -> RepositoryReport:
    return migrate(MigrationPlaces("data", place / "old", place / "new"), MigrationOptions(**options))  # type: ignore[arg-type]


def after_the_walk(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody does something when the source has been walked through, and nothing is copied yet."""

    def walked(*arguments: object, **options: object) -> Iterator[object]:
        found = list(walk_below(*arguments, **options))  # type: ignore[arg-type]
        act()
        yield from found

    monkeypatch.setattr(WALK, walked)


def given(path: Path, uid: int, mode: int) -> None:
    os.chown(path, uid, uid)
    path.chmod(mode)


def shared(place: Path) -> Path:
    """Alice's closed directory beside one of mallory, with files of the same names, where both may rename."""
    around = place / "old" / "shared"
    for name, uid, mode in (("alice", ALICE, 0o700), ("mallory", MALLORY, 0o755)):
        for within in (around / name, around / name / "sub"):
            within.mkdir(parents=True)
            (within / "notes").write_text(f"{name}'s")
            (within / "twice").write_text(f"{name}'s")
            (within / "link").hardlink_to(within / "twice")
            given(within, uid, 0o755)
            for each in ("notes", "twice"):
                given(within / each, uid, 0o644)
        (around / name).chmod(mode)
    given(around, 0, 0o777)
    return around


def seen_by_mallory(library: Path) -> set[str]:
    """What mallory can read of all files below a directory."""
    results = library.parent / "results"
    results.write_text("")
    results.chmod(0o666)

    def act() -> None:
        for where, _, names in os.walk(library):
            for name in names:
                with (Path(where) / name).open() as file, results.open("a") as found:
                    found.write(file.read() + "\n")

    as_user(MALLORY, act)
    return set(results.read_text().split("\n")) - {""}


def test_what_is_exchanged_at_the_source_after_the_walk_is_not_copied(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = shared(place)

    def swap() -> None:
        as_user(MALLORY, lambda: exchange(bytes(around / "alice"), bytes(around / "mallory")))

    with monkeypatch.context() as patched:
        after_the_walk(swap, patched)
        report = moved(place)
    problems = dict(report.problems)
    assert "another file in its place" in problems["shared/mallory/notes"]
    assert "shared/mallory/sub/notes" in problems
    assert seen_by_mallory(place / "new") == set()
    swap()
    as_user(MALLORY, (around / "mallory" / "notes").unlink)
    assert moved(place).problems == []
    assert seen_by_mallory(place / "new") == {"mallory's"}
    assert not (place / "new" / "shared" / "mallory" / "notes").exists()
    assert (place / "new" / "shared" / "alice" / "notes").read_text() == "alice's"


def test_what_is_exchanged_during_the_walk_is_not_linked(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = shared(place)
    # The walk meets alice's files below mallory's name, of which one has a name that was copied before.
    (place / "old" / "first").hardlink_to(around / "alice" / "twice")

    def walked(*arguments: object, **options: object) -> Iterator[object]:
        before = list(walk_below(*arguments, **options))  # type: ignore[arg-type]
        exchange(bytes(around / "alice"), bytes(around / "mallory"))
        for files, troubles in walk_below(*arguments, **options):  # type: ignore[arg-type]
            directories = [each for some, _ in before for each in some if stat.S_ISDIR(each.st_mode)]
            yield directories + [each for each in files if not stat.S_ISDIR(each.st_mode)], troubles

    with monkeypatch.context() as patched:
        patched.setattr(WALK, walked)
        moved(place)
    assert [path for path in (place / "new" / "shared" / "mallory").rglob("*") if path.is_file()] == []


def test_a_directory_that_was_exchanged_between_passes_stays_closed(place: Path) -> None:
    around, library = shared(place), place / "new" / "shared"
    (around / "alice" / "secret").write_text("alice's secret")
    given(around / "alice" / "secret", ALICE, 0o644)
    moved(place)
    assert seen_by_mallory(place / "new") == {"mallory's"}
    as_user(MALLORY, lambda: exchange(bytes(around / "alice"), bytes(around / "mallory")))
    for _ in range(2):
        report = moved(place)
        assert "another directory is at the source" in dict(report.problems)["shared/alice"]
        assert seen_by_mallory(place / "new") <= {"mallory's"}
        assert stat.S_IMODE((library / "alice").stat().st_mode) == 0o700
    moved(place, cut_over=True)
    assert seen_by_mallory(place / "new") == {"mallory's"}
    assert (library / "alice").stat().st_uid == MALLORY
    assert not (library / "alice" / "secret").exists()
    assert (library / "mallory" / "secret").read_text() == "alice's secret"


def test_what_a_user_mounts_over_the_source_gives_no_privileges(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = place / "old" / "m" / "z"
    home.mkdir(parents=True)
    (home / "tool").write_text("#!/bin/sh\n")
    (home / "link").symlink_to("x")
    for each in (home.parent, home, home / "tool"):
        given(each, MALLORY, 0o755)
    (place / "old" / "neighbour").write_text("")

    def mount() -> None:
        mount_memory(home)
        (home / "tool").write_text("#!/bin/sh\n")
        (home / "tool").chmod(0o4755)
        (home / "link").symlink_to("x")

    def act() -> None:
        leave_mounts_of_others()
        after_the_walk(mount, monkeypatch)
        problems = dict(moved(place).problems)
        assert "another file system is mounted there" in problems["m/z/tool"]
        assert set(problems) == {"m/z/tool", "m/z/link", "m/z"}

    as_user(0, act)
    assert list((place / "new" / "m" / "z").iterdir()) == []
    assert (place / "new" / "neighbour").exists()


def test_nothing_is_written_into_what_is_mounted_over_the_library(place: Path) -> None:
    for name in ("m", "n"):
        (place / "old" / name).mkdir()
        (place / "old" / name / "one").write_text("")
    moved(place)
    for name in ("m", "n"):
        (place / "old" / name / "two").write_text("")

    def act() -> None:
        leave_mounts_of_others()
        mount_memory(place / "new" / "m")
        report = moved(place)
        assert [name for name, _ in report.problems] == ["m"]
        assert "another file system is mounted there" in report.problems[0][1]
        assert list((place / "new" / "m").iterdir()) == []
        moved(place, cut_over=True, verify=True)
        assert list((place / "new" / "m").iterdir()) == []

    as_user(0, act)
    assert (place / "new" / "n" / "two").exists()
    assert (place / "new" / "m" / "one").exists()


def test_a_source_without_privileges_gives_none(place: Path) -> None:
    def act() -> None:
        leave_mounts_of_others()
        mount_memory(place / "old", "mode=755,nosuid,nodev")
        for name, mode in (("tool", 0o6755), ("file", 0o644)):
            (place / "old" / name).write_text("")
            (place / "old" / name).chmod(mode)
        os.mknod(place / "old" / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        os.mkfifo(place / "old" / "pipe")
        for _ in range(2):
            report = moved(place)
            assert [name for name, _ in report.problems] == ["device"]
            assert "nodev" in report.problems[0][1]
        (place / "new" / "tool").unlink()
        assert any("nosuid" in note for note in moved(place).notes)

    as_user(0, act)
    assert stat.S_IMODE((place / "new" / "tool").stat().st_mode) == 0o755
    assert sorted(each.name for each in (place / "new").iterdir()) == ["file", "pipe", "tool"]


def test_a_deep_directory_keeps_nobody_else_from_being_copied(place: Path) -> None:
    path = deep(place / "old", 600)
    (place / "old" / "neighbour").write_text("")

    def act() -> None:
        # What this process of tests has open already counts, too.
        most = max(int(each.name) for each in Path("/proc/self/fd").iterdir()) + 200
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        assert moved(place).problems == []

    as_user(0, act)
    assert (place / "new" / "neighbour").exists()
    assert (place / "new" / os.fsdecode(path)).exists()
    for name in ("old", "new"):
        assert remove_tree(place / name / "d")
