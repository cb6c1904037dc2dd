"""The native walk tells what `os.walk` and `os.lstat` tell, of any names, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.repository.keys import RESERVED
from gridwright.repository.known_file import KnownFile
from gridwright.repository.scan import find_changes
from gridwright.repository.settings import OpenRepository, RepositoryReport, RepositorySettings
from gridwright.repository.walking import UnreadDirectory, walk_below
from tests.unit.repository.test_many_objects import ListedStore

FIELDS = (
    "st_mode", "st_ino", "st_dev", "st_rdev", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks",
    "st_mtime_ns", "st_ctime_ns",
)  # fmt: skip
NAMES = st.binary(min_size=1, max_size=12).map(
    lambda some: some.replace(b"/", b"\xff").replace(b"\0", b"\n")
).filter(lambda name: name not in (b".", b".."))  # fmt: skip
KINDS = st.sampled_from(["file", "directory", "link", "pipe", "sparse"])
Seen = dict[bytes, tuple[int, ...]]


@contextlib.contextmanager
def directory_of(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def walked(root: Path, *chosen: bytes) -> tuple[list[tuple[bytes, tuple[int, ...]]], list[UnreadDirectory]]:
    """All that a walk tells, in the order in which it comes."""
    found: list[tuple[bytes, tuple[int, ...]]] = []
    troubles: list[UnreadDirectory] = []
    with directory_of(root) as descriptor:
        for files, some in walk_below(descriptor, chosen):
            found += [(each.path, tuple(getattr(each, name) for name in FIELDS)) for each in files]
            troubles += some
    return found, troubles


def walked_by_python(root: Path) -> Seen:
    """The same, by other means."""
    found: Seen = {}
    top = os.fsencode(root)
    for directory, names, files in os.walk(top):
        for name in names + files:
            path = directory + b"/" + name
            status = os.lstat(path)
            found[path[len(top) + 1 :]] = tuple(getattr(status, each) for each in FIELDS)
    return found


def make(place: Path, kind: str) -> None:
    if kind == "directory":
        place.mkdir()
    elif kind == "link":
        place.symlink_to("..")
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        with place.open("xb") as file:
            file.truncate(1 << 40) if kind == "sparse" else file.write(bytes(place.parent))


@given(st.lists(st.tuples(st.integers(0, 30), NAMES, KINDS), max_size=40))
def test_a_walk_tells_what_is_there(items: list[tuple[int, bytes, str]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        directories = [Path(place)]
        for parent, name, kind in items:
            path = directories[parent % len(directories)] / os.fsdecode(name)
            with contextlib.suppress(FileExistsError):
                make(path, kind)
                directories += [path] if kind == "directory" else []
        found, troubles = walked(Path(place))
        assert dict(found) == walked_by_python(Path(place))
        assert len(found) == len(dict(found)) and not troubles
        told: set[bytes] = {b""}
        for each, status in found:
            assert each.rpartition(b"/")[0] in told
            told |= {each} if stat.S_ISDIR(status[0]) else set()


def test_only_what_is_chosen_is_told(tmp_path: Path) -> None:
    for each in ("a/b/c", "a/bb", "d"):
        (tmp_path / each).mkdir(parents=True)
    assert [path for path, _ in walked(tmp_path, b"a/b")[0]] == [b"a/b", b"a/b/c"]


def test_files_of_gridwright_are_left_out(tmp_path: Path) -> None:
    (tmp_path / RESERVED).mkdir()
    (tmp_path / "within" / RESERVED).mkdir(parents=True)
    (tmp_path / "within" / ".gridwright-part-0").touch()
    assert dict(walked(tmp_path)[0]).keys() == {b"within", b"within/" + RESERVED.encode()}


def test_paths_are_longer_than_the_kernel_takes_at_once(tmp_path: Path) -> None:
    deep, name = 30, "d" * 200
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for _ in range(deep):
        os.mkdir(name, dir_fd=descriptor)
        below = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    found, troubles = walked(tmp_path)
    assert (len(found), len(found[-1][0]), troubles) == (deep, deep * 201 - 1, [])
    shutil.rmtree(tmp_path / name)


def test_batches_of_a_large_directory_are_small(tmp_path: Path) -> None:
    for place in range(3500):
        (tmp_path / f"rows-{place}").touch()
    with directory_of(tmp_path) as descriptor:
        sizes = [len(files) for files, _ in walk_below(descriptor)]
    assert sum(sizes) == 3500 and max(sizes) <= 1000


def test_files_come_and_go_meanwhile(tmp_path: Path) -> None:
    """What stays is told, and told once; what moves is no error."""
    for place in range(40):
        (tmp_path / f"d{place}").mkdir()
        for each in range(50):
            (tmp_path / f"d{place}" / f"stays-{each}").touch()
    end = threading.Event()

    def disturb() -> None:
        while not end.is_set():
            for place in range(40):
                moving = tmp_path / f"d{place}" / "moves"
                moving.mkdir()
                (moving / "within").touch()
                moving.rename(tmp_path / "moved")
                shutil.rmtree(tmp_path / "moved")

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(5):
            found, troubles = walked(tmp_path)
            stays = [path for path, _ in found if b"stays" in path]
            assert len(stays) == len(set(stays)) == 2000
            assert not troubles
    finally:
        end.set()
        thread.join()


def known_file(path: bytes, mode: int) -> KnownFile:
    return KnownFile(
        path=path, mode=mode, uid=0, gid=0, size=0, blocks=0, atime_ns=0, mtime_ns=0, ctime_ns=1, inode=1,
        links=1, key=path.decode(), etag="e", version_id=None, crc64=None, target=None, xattrs=None,
        link_of=None, is_name_only=False,
    )  # fmt: skip


def test_what_lies_in_an_unreadable_directory_is_not_taken_for_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export with --deletions would delete the objects of files that are there."""
    root = tmp_path / "library"
    (root / "closed").mkdir(parents=True)
    (root / "closed" / "rows").touch()
    opened = OpenRepository.open(
        RepositorySettings("archive", root, "s3://site-sas/prod"),
        ListedStore(0),  # type: ignore[arg-type]
    )
    try:
        opened.known.put(known_file(b"closed/rows", 0o100644))
        opened.known.put(known_file(b"gone", 0o100644))
        report = RepositoryReport("archive", "export")
        unread = UnreadDirectory(b"closed", errno.EIO)
        monkeypatch.setattr("gridwright.repository.scan.walk_below", lambda *_, **__: iter([([], [unread])]))
        find_changes(opened, [], report, deletions=True)
        work = [path for path, action, _, _ in opened.known.work() if "deleted" in action]
    finally:
        opened.close()
    assert work == [b"gone"]
    assert report.problems == [("closed", "the directory cannot be read: Input/output error")]


def test_a_directory_that_may_not_be_read_is_named() -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        root.chmod(0o755)
        (root / "closed").mkdir(mode=0o700)
        (root / "closed" / "rows").touch()
        (root / "open").touch()
        if os.geteuid() != 0:
            pytest.skip("root makes what another user may not read")
        os.seteuid(65534)
        try:
            found, troubles = walked(root)
        finally:
            os.seteuid(0)
    assert sorted(path for path, _ in found) == [b"closed", b"open"]
    assert troubles == [UnreadDirectory(b"closed", errno.EACCES)]


def test_a_chain_of_directories_is_named_once_where_its_path_becomes_too_long(tmp_path: Path) -> None:
    """Anybody makes one by mkdir and chdir; a walk of it all takes its length squared."""
    here = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(300):
        os.mkdir(b"d" * 255, dir_fd=here)
        within = os.open(b"d" * 255, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = within
    os.close(here)
    (tmp_path / "neighbour").touch()
    found, (trouble,) = walked(tmp_path)
    assert b"neighbour" in {path for path, _ in found}
    assert len(found) == 1 + 65
    assert len(trouble.path) == 65 * 256 - 1
    assert "longer than 16 KiB" in trouble.why
