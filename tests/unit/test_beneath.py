"""Beneath a directory that others write, files are reached, changed and removed without following links."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gridwright.beneath import (
    Beneath,
    PrivateDirectory,
    change_mode,
    change_owner,
    change_times,
    empty_directory,
    own_directories,
    pinned,
    remove_tree,
)
from gridwright.errors import GridwrightError
from gridwright.trusted import open_directory, open_file, why_untrusted_path
from tests.support.as_user import ALICE, MALLORY, as_user, exchange, open_to_all, racing
from tests.support.disks import leave_mounts_of_others, mount_memory, run


@pytest.mark.parametrize("path", [b"../x", b"a/../../x", b"..", b"a//b", b"/etc/passwd", b"a/.."])
def test_a_path_that_leads_out_is_refused(tmp_path: Path, path: bytes) -> None:
    (tmp_path / "a").mkdir()
    with Beneath(tmp_path) as beneath, pytest.raises(OSError, match="leads out"):
        beneath.parent(path)


def test_a_link_on_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a").symlink_to("/etc")
    with Beneath(tmp_path / "root") as beneath:
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            beneath.parent(b"a/passwd")
        assert beneath.status(b"a/passwd") is None


def test_what_is_changed_is_what_was_opened(tmp_path: Path) -> None:
    outside, place = tmp_path / "outside", tmp_path / "place"
    outside.write_text("")
    place.mkdir()
    before = outside.stat()
    directory = os.open(place, os.O_RDONLY)
    (place / "file").write_text("")
    (place / "link").symlink_to(outside)
    os.mkfifo(place / "pipe")
    for name in ("file", "link", "pipe"):
        with pinned(directory, name) as pin:
            # Whoever may write the directory exchanges the name now.
            (place / name).rename(place / f"old-{name}")
            (place / name).symlink_to(outside)
            change_owner(pin, ALICE, ALICE)
            if name != "link":
                change_mode(pin, 0o4711)
            change_times(pin, 5, 7)
        status = (place / f"old-{name}").lstat()
        assert (status.st_uid, status.st_mtime_ns) == (ALICE, 7)
    with pytest.raises(OSError, match="another file"), pinned(directory, "file", before):
        pass
    os.close(directory)
    assert outside.stat() == before


def test_a_tree_is_removed_whatever_its_owner_made_of_it(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    place = tmp_path / "home"
    place.mkdir()
    os.chown(place, ALICE, ALICE)
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)

    def alice() -> None:
        tree = place / "tree"
        deep = tree
        deep.mkdir()
        os.chdir(deep)
        for _ in range(350):
            Path("d").mkdir()
            os.chdir("d")
        (tree / "closed" / "in").mkdir(parents=True)
        (tree / "closed" / "file").write_text("")
        (tree / "closed").chmod(0o000)
        (tree / "link").symlink_to(outside)
        os.chdir("/")
        assert remove_tree(tree)

    as_user(ALICE, alice)
    assert list(place.iterdir()) == []
    assert (outside / "deep").is_dir()


def test_a_link_in_the_place_of_a_tree_stays(tmp_path: Path) -> None:
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (tmp_path / "tree").symlink_to("outside")
    assert not remove_tree(tmp_path / "tree")
    assert (tmp_path / "outside" / "deep").is_dir()
    directory = os.open(tmp_path / "outside", os.O_RDONLY)
    assert empty_directory(directory)
    os.close(directory)
    assert remove_tree(tmp_path / "outside")
    assert remove_tree(tmp_path / "never" / "there")


def test_a_directory_of_somebody_else_is_not_believed(tmp_path: Path) -> None:
    for mode, owner, text in (
        (0o755, MALLORY, "belongs to"),
        (0o777, 0, "can write"),
        (0o775, 0, "can write"),
    ):
        place = tmp_path / f"{owner}-{mode:o}"
        place.mkdir()
        place.chmod(mode)
        os.chown(place, owner, owner)
        with pytest.raises(GridwrightError, match=text):
            open_directory(place)
    (tmp_path / "link").symlink_to("/etc")
    os.close(open_directory(tmp_path / "link"))
    above = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(GridwrightError, match="symbolic link"):
        open_directory("link", directory=above)
    os.close(above)
    os.chown(tmp_path / "link", MALLORY, MALLORY, follow_symlinks=False)
    with pytest.raises(GridwrightError, match="it is a symbolic link, and belongs to 2002"):
        open_directory(tmp_path / "link")
    os.close(open_directory(tmp_path / "shared", make=0o1777, is_shared=True))
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o1777
    with pytest.raises(GridwrightError, match="can write"):
        open_directory(tmp_path / "shared")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")
def test_whoever_can_exchange_what_is_above_is_named(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    for name, owner, mode in (
        ("mallory", MALLORY, 0o755),
        ("project", 0, 0o2775),
        ("alice", ALICE, 0o755),
        ("tmp", 0, 0o1777),
        ("closed", ALICE, 0o700),
    ):
        place = tmp_path / name
        (place / "state").mkdir(parents=True)
        for each in (place / "state", place):
            os.chown(each, owner, owner)
        place.chmod(mode)
    for name in ("mallory", "project", "tmp"):
        os.chown(tmp_path / name / "state", ALICE, ALICE)
    (tmp_path / "closed" / "umask 002" / "state").mkdir(parents=True)
    for each in (tmp_path / "closed" / "umask 002", tmp_path / "closed" / "umask 002" / "state"):
        os.chown(each, ALICE, ALICE)
    (tmp_path / "closed" / "umask 002").chmod(0o775)
    (tmp_path / "roots").symlink_to("alice")
    (tmp_path / "tmp" / "theirs").symlink_to("../alice")
    os.chown(tmp_path / "tmp" / "theirs", MALLORY, MALLORY, follow_symlinks=False)
    (tmp_path / "round").symlink_to("mallory/back")
    (tmp_path / "mallory" / "back").symlink_to("../alice")
    (tmp_path / "alice" / "out").symlink_to("../project")

    def act() -> None:
        for good in (
            "alice/state",
            "roots/state",
            "tmp/state",
            "closed/umask 002/state",
            "roots/../alice/state",
        ):
            os.close(open_directory(tmp_path / good))
            assert why_untrusted_path(tmp_path / good) is None
        for bad, text in (
            ("mallory/state", f"{tmp_path}/mallory belongs to 2002"),
            ("mallory/../alice/state", f"{tmp_path}/mallory belongs to 2002"),
            ("project/state", f"other users can write {tmp_path}/project .mode 2775, owner root"),
            ("alice/out/state", f"other users can write {tmp_path}/project .mode 2775, owner root"),
            ("tmp/theirs/state", f"{tmp_path}/tmp/theirs is a symbolic link, and belongs to 2002"),
            ("round/state", f"{tmp_path}/mallory belongs to 2002"),
            ("mallory/not there", f"{tmp_path}/mallory belongs to 2002"),
        ):
            with pytest.raises(GridwrightError, match=text):
                open_directory(tmp_path / bad, make=0o700)
            assert why_untrusted_path(tmp_path / bad)

    as_user(ALICE, act)
    for name in ("mallory", "alice"):
        with pytest.raises(GridwrightError, match="belongs to"):
            open_directory(tmp_path / name / "state")
    # What is the caller's own is not to be removed: its mode alone is wrong.
    with pytest.raises(GridwrightError) as caught:
        open_directory(tmp_path / "project" / "state")
    assert caught.value.problems[0].remedy == f"chmod go-w {tmp_path}/project"


def test_nothing_is_made_where_mallory_was_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "shared" / "new" / "state"
    place.parents[1].mkdir()
    place.parents[1].chmod(0o1777)
    make = Path.mkdir

    def faster(self: Path, **given: Any) -> None:
        make(self)
        os.chown(self, MALLORY, MALLORY)
        make(self, **given)

    monkeypatch.setattr(Path, "mkdir", faster)
    with pytest.raises(GridwrightError, match=f"{place.parent}: it cannot be trusted: it belongs to"):
        open_directory(place, make=0o700)
    assert list(place.parent.iterdir()) == []


def test_a_file_of_somebody_else_is_not_believed(tmp_path: Path) -> None:
    directory = open_directory(tmp_path / "own", make=0o700)
    place = tmp_path / "own"
    (place / "link").symlink_to("/etc/passwd")
    os.mkfifo(place / "pipe")
    (place / "theirs").write_text("")
    os.chown(place / "theirs", MALLORY, MALLORY)
    (place / "one").write_text("")
    os.link(place / "one", place / "two")
    for name in ("link", "pipe", "theirs", "one"):
        with pytest.raises(GridwrightError, match="cannot be trusted"):
            open_file(directory, name)
    os.close(open_file(directory, "new", os.O_RDWR | os.O_CREAT))
    assert stat.S_IMODE((place / "new").stat().st_mode) == 0o600
    os.close(directory)


def test_a_tree_is_removed_while_its_owner_exchanges_names(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    outside.chmod(0o751)
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, MALLORY, MALLORY)
    tree = home / "tree"

    def mallory() -> None:
        with suppress(OSError):
            while True:
                exchange(bytes(tree / "d"), bytes(tree / "x"))
        with suppress(OSError):
            (tree / "d").mkdir(parents=True)
        with suppress(OSError):
            (tree / "x").symlink_to(outside)

    with racing(MALLORY, mallory):
        met = 0
        while met < 40:
            met += tree.is_dir()
            remove_tree(tree)
    assert stat.S_IMODE(outside.stat().st_mode) == 0o751
    assert (outside / "deep").is_dir()
    assert remove_tree(tree)


def test_a_private_directory_is_new_and_goes_where_it_was_made(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    directory = os.open(place, os.O_RDONLY)
    private = PrivateDirectory(directory, b"part")
    assert stat.S_IMODE((place / "part").stat().st_mode) == 0o700
    with pytest.raises(FileExistsError):
        PrivateDirectory(directory, b"part")
    (place / "part").rename(place / "mine")
    (place / "part").mkdir()
    (place / "part" / "file").write_text("")
    os.close(os.open("new", os.O_WRONLY | os.O_CREAT, dir_fd=private.descriptor))
    os.rename("new", "whole", src_dir_fd=private.descriptor, dst_dir_fd=private.parent)
    private.close()
    os.close(directory)
    assert sorted(each.name for each in place.iterdir()) == ["mine", "part", "whole"]


def test_who_may_rename_what_others_have_is_told(tmp_path: Path) -> None:
    for name, owner, mode in (("a", 0, 0o755), ("a/b", ALICE, 0o1777), ("a/b/c", MALLORY, 0o775)):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, owner, owner)
        (tmp_path / name).chmod(mode)
    with Beneath(tmp_path) as beneath:
        assert beneath.writers(b"a/x") == {0}
        assert beneath.writers(b"a/b/x") == {0, ALICE}
        assert beneath.writers(b"a/b/c/x") == {0, ALICE, MALLORY, None}


def test_only_directories_of_ones_own_are_told(tmp_path: Path) -> None:
    for name in ("mine-1", "mine-2", "mine-theirs", "other"):
        (tmp_path / name / "in").mkdir(parents=True)
    os.chown(tmp_path / "mine-theirs", MALLORY, MALLORY)
    (tmp_path / "mine-link").symlink_to("other")
    (tmp_path / "mine-file").write_text("")
    assert [own.path.name for own in own_directories(tmp_path, "mine-")] == ["mine-1", "mine-2"]
    assert [own.remove() for own in own_directories(tmp_path, "mine-")] == [True, True]
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "mine-file",
        "mine-link",
        "mine-theirs",
        "other",
    ]
    assert list(own_directories(tmp_path / "none", "mine-")) == []


def deep(place: Path, levels: int) -> bytes:
    """Make directories within each other, and a file in the last one; its path below the place."""
    here = os.open(place, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT, dir_fd=here))
    os.close(here)
    return b"d/" * levels + b"file"


def test_few_directories_stay_open_however_deep_a_path_is(tmp_path: Path) -> None:
    path = deep(tmp_path, 600)
    (tmp_path / "d" / "other").write_text("")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with Beneath(tmp_path) as beneath:
        for each in (path, b"d/other", path, path[2 * 6 :], path[2 * 300 :], b"d/d/d/x", path):
            status = beneath.status(each)
            assert (status is None) == (each not in (path, b"d/other"))
            directory, name = beneath.parent(each)
            expected = os.stat(tmp_path / os.fsdecode(each.rpartition(b"/")[0]))  # noqa: PTH116
            assert os.fstat(directory).st_ino == expected.st_ino, name
            assert len(os.listdir("/proc/self/fd")) - before < 20  # noqa: PTH208
        assert beneath.writers(path) == {0}
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert remove_tree(tmp_path / "d")


def test_no_other_file_system_is_entered(tmp_path: Path) -> None:
    for name in ("a/mount/in", "a/beside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("below")

    def act() -> None:
        leave_mounts_of_others()
        mount_memory(tmp_path / "a" / "mount")
        (tmp_path / "a" / "mount" / "in").mkdir()
        (tmp_path / "a" / "mount" / "file").write_text("")
        run("mount", "--bind", "/dev/null", tmp_path / "a" / "file")
        with Beneath(tmp_path) as beneath:
            for path in (b"a/mount", b"a/mount/file", b"a/mount/in/new", b"a/file"):
                with pytest.raises(OSError, match="another file system is mounted there") as refused:
                    beneath.status(path)
                assert refused.value.filename in ("a/mount", "a/file")
            with pytest.raises(OSError, match="another file system"):
                beneath.parent(b"a/mount/new/x", make=True)
            assert beneath.status(b"a/beside") is not None
            directory, _ = beneath.parent(b"a/file")
            for name in (b"mount", b"file"):
                with pytest.raises(OSError, match="another file system"), pinned(directory, name):
                    pass
        assert not (tmp_path / "a" / "mount" / "new").exists()
        assert not remove_tree(tmp_path / "a")
        assert (tmp_path / "a" / "mount" / "file").exists()

    as_user(0, act)
